import type { HeldCounts, InFlight, Settlement, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Database, Leader, TickDue, TickRead } from '@pgqueue/postgres';
import {
  dispatch,
  loadPolicyState,
  readItemFacts,
  readTick,
  setFeed,
  takeBack,
  wasRolledBack,
} from '@pgqueue/postgres';
import type { Consumption, Load } from './depth.ts';
import { capability, measureConsumption } from './depth.ts';
import type { Ledger } from './ledger.ts';
import { createLedger } from './ledger.ts';
import type { Settings } from './options.ts';
import { createPace } from './pace.ts';
import type { Planned, Planner } from './planner.ts';
import type { SkipAhead } from './skip-ahead.ts';
import { createSkipAhead } from './skip-ahead.ts';
import { ask, cutOff, heldReasons, loadOf, roomAfter, roomOf, toSnapshot } from './tick.ts';
import type { View } from './view.ts';
import { createView } from './view.ts';

export interface Dispatcher {
  /** One tick: reads, plans, writes. Resolves to the milliseconds until the next. */
  readonly tick: (leader: Leader) => Promise<number>;
  /** The snapshot of the last tick of this reign. */
  readonly last: () => Snapshot | undefined;
}

export interface DispatcherOptions {
  readonly database: Database;
  readonly settings: Settings;
  readonly planner: Planner;
  /** What is fetched beside the ticks. */
  readonly beside: () => Pick<Snapshot, 'health' | 'prepared'>;
  /** Whether hints are heard at present; without, a tick that found nothing must come again sooner. */
  readonly hearing: () => boolean;
  /** What the sweeps have to do, as far as this tick could see. */
  readonly onSeen: (state: TickRead['state'], due: TickDue | null) => void;
  readonly onTick: (tick: TickReport) => void;
  /** A write may have happened, or may still happen: nothing must be planned in this epoch any more. */
  readonly onUnknown: (leader: Leader) => void;
}

/** What came of one tick. */
export interface TickReport {
  readonly held: HeldCounts;
  readonly forecast: Readonly<Record<string, number>>;
  readonly snapshot: Snapshot;
  readonly dispatched: readonly InFlight[];
  readonly durationMs: number;
}

/** Settlements that wait to be removed: as many, or so long, and they are written without a plan. */
const unsavedMax = 100;
const unsavedMs = 1_000;

/** Owns all that a leader remembers between ticks. */
interface Memory {
  readonly view: View;
  readonly ledger: Ledger;
  readonly consumption: Consumption;
  readonly skipAhead: SkipAhead;
  /** Ended attempts that no plan has seen yet. */
  settled: readonly Settlement[];
  epoch: number | undefined;
  feeds: boolean;
  room: number;
  nowMs: number;
  writtenAt: number;
  capabilities: string;
  after: string;
  last: Snapshot | undefined;
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { settings, planner } = options;
  const pace = createPace(options);
  const memory: Memory = {
    view: createView(),
    ledger: createLedger(),
    consumption: measureConsumption(),
    skipAhead: createSkipAhead(),
    settled: [],
    epoch: undefined,
    feeds: false,
    room: settings.batchMax,
    nowMs: 0,
    writtenAt: 0,
    capabilities: '',
    after: '',
    last: undefined,
  };

  const tick = async (leader: Leader): Promise<number> => {
    const startedAt = performance.now();
    if (memory.epoch !== leader.epoch) await begin(options, memory, leader);
    const asked = ask(memory.room, settings.batchMax);
    const { read, load } = await look(options, memory, { ...asked, startedAt, due: pace.asksDue() });
    options.onSeen(read.state, read.due);
    const snapshot = toSnapshot(read, load, { ...memory, ...options.beside(), ...settings });
    memory.last = snapshot;
    const planned = planner.plan(snapshot);
    memory.skipAhead.note({
      candidates: read.rows,
      misfit: ({ id }) => misfit(id === null ? undefined : planned.reasons?.get(id)),
      nowMs: startedAt,
    });
    const hasRoom = roomAfter(snapshot, planned.dispatch, memory.view);
    const written = await write(options, memory, { leader, snapshot, planned });
    memory.room = roomOf(snapshot);
    const { held, forecast = {} } = planned;
    const durationMs = performance.now() - startedAt;
    settings.observe({
      type: 'tick',
      dispatched: written.length,
      held: heldReasons(held, snapshot.queues),
      durationMs,
    });
    options.onTick({ snapshot, held, forecast, dispatched: written, durationMs });
    return pace.next({
      jobs: written.length,
      atOnce: asksAgain(memory, planned),
      more: mayHaveMore(settings, memory, { planned, read, keys: asked.keys, hasRoom, written }),
      nextMs: planned.nextMs === null ? null : planned.nextMs - snapshot.nowMs,
    });
  };
  return { tick, last: () => memory.last };
}

/** The first tick of a reign begins from what the last leader saved, and from the work items that are there. */
async function begin(
  { database, planner, settings }: DispatcherOptions,
  memory: Memory,
  leader: Leader,
): Promise<void> {
  const { view, ledger, consumption, skipAhead } = memory;
  memory.feeds = planner.needs.settlements === true;
  await setFeed(database, leader, memory.feeds);
  planner.restore(await loadPolicyState(database));
  for (const part of [view, ledger, skipAhead]) part.reset();
  consumption.forget();
  memory.settled = [];
  memory.last = undefined;
  memory.room = settings.batchMax;
  memory.epoch = leader.epoch;
}

/** Reads a snapshot, and brings what is remembered to it. */
async function look(
  { database }: DispatcherOptions,
  memory: Memory,
  { want, keys, startedAt, due }: { want: number; keys: number; startedAt: number; due: boolean },
): Promise<{ readonly read: TickRead; readonly load: Load }> {
  const { view, ledger, consumption, skipAhead } = memory;
  const walks = skipAhead.starts(startedAt);
  const read = await readTick(database, {
    want,
    keys,
    ...walks,
    ...view.ask(memory.nowMs, skipAhead.lanes()),
    settled: memory.feeds,
    due,
  });
  const { state, rows } = read;
  memory.nowMs = state.now;
  const unknown = ledger.see(state.items, memory.feeds);
  if (unknown.length > 0) ledger.learn(await readItemFacts(database, unknown), state.items);
  if (memory.feeds) {
    const whole = state.settled.length < 500;
    memory.settled = [...memory.settled, ...ledger.settled(state.settled, whole, state.now)];
  }
  view.see(rows, keys);
  const load = loadOf(read, ledger.inFlight());
  consumption.sample(load);
  rememberNodes(memory, read);
  return { read, load };
}

/** Jobs that no node could run may have a place now. */
function rememberNodes(memory: Memory, { state }: TickRead): void {
  const able = state.nodes.map((node) => `${node.pool} ${capability(node)}`).toSorted();
  const capabilities = [...new Set(able)].join('\n');
  if (capabilities !== memory.capabilities) memory.skipAhead.reset();
  memory.capabilities = capabilities;
}

function misfit(reason: string | undefined): 'lasting' | 'passing' | undefined {
  if (reason === undefined) return undefined;
  return reason === 'no_capable_node' ? 'lasting' : 'passing';
}

async function write(
  { database, planner, onUnknown }: DispatcherOptions,
  memory: Memory,
  {
    leader,
    snapshot,
    planned,
  }: { readonly leader: Leader; readonly snapshot: Snapshot; readonly planned: Planned },
): Promise<readonly InFlight[]> {
  const { view, ledger, consumption } = memory;
  if (planned.recall.length > 0) {
    planner.dropped();
    await recall(database, memory, { leader, ids: planned.recall, nowMs: snapshot.nowMs });
    return [];
  }
  const settled = ledger.unsaved();
  const waitedMs = snapshot.nowMs - memory.writtenAt;
  const overdue = settled.length >= unsavedMax || (memory.settled.length > 0 && waitedMs > unsavedMs);
  if (planned.dispatch.length === 0 && !overdue) {
    // what a policy keeps moves on only together with what is written
    planner.dropped();
    return [];
  }
  const jobs = planned.dispatch.map(({ id, pool, bundle }) => ({
    id,
    pool,
    rowVersion: view.find(id)?.rowVersion ?? null,
    bundle: bundle ?? null,
  }));
  try {
    const { atMs, positions } = await dispatch(database, {
      ...leader,
      jobs,
      parts: planned.parts,
      settled,
      notify: true,
    });
    memory.writtenAt = atMs;
    memory.settled = [];
    ledger.saved(settled);
    planner.written({ atMs, ids: new Set(positions.keys()) });
    const items = jobs.flatMap(({ id, pool, bundle }): InFlight[] => {
      const [job, position] = [view.find(id), positions.get(id)];
      if (job === undefined || position === undefined) return [];
      const item: InFlight = { ...job, pool, bundle, dispatchedMs: atMs, state: 'ready', node: null };
      ledger.wrote(item, position);
      return [item];
    });
    view.wrote(
      jobs.map(({ id }) => id),
      positions,
    );
    consumption.dispatched(items.filter(({ id, bundle }) => bundle === null || bundle === id));
    return items;
  } catch (error) {
    memory.epoch = undefined;
    planner.dropped();
    if (!wasRolledBack(error)) onUnknown(leader);
    throw error;
  }
}

/** Their jobs wait again, and are planned at once together with what outranks them. */
async function recall(
  database: Database,
  memory: Memory,
  {
    leader,
    ids,
    nowMs,
  }: { readonly leader: Leader; readonly ids: readonly string[]; readonly nowMs: number },
): Promise<void> {
  const back = await takeBack(database, leader, ids);
  const items = memory.ledger.tookBack(back);
  const recalled = items.map((job): Settlement => ({ job, outcome: 'recalled', busyMs: 0, endedMs: nowMs }));
  if (memory.feeds) memory.settled = [...memory.settled, ...recalled];
  memory.view.want(items.map((item) => [laneName(item), items.length] as const));
}

/** Lanes wait to be read before they can be judged. */
function asksAgain({ view }: Memory, planned: Planned): boolean {
  view.want((planned.stale ?? []).map((lane) => [lane, 1] as const));
  view.want(planned.deepen ?? []);
  return planned.recall.length > 0 || (planned.stale ?? []).length > 0 || (planned.deepen?.size ?? 0) > 0;
}

function mayHaveMore(
  { batchMax }: Settings,
  memory: Memory,
  tick: {
    readonly planned: Planned;
    readonly read: TickRead;
    readonly keys: number;
    readonly hasRoom: (queue: string) => boolean;
    readonly written: readonly InFlight[];
  },
): boolean {
  const { planned, read, keys, hasRoom, written } = tick;
  const walking = memory.skipAhead.walking();
  const after = JSON.stringify(read.rows.findLast(({ paged }) => paged)?.key ?? '');
  const moved = after !== memory.after;
  memory.after = after;
  if (planned.dispatch.length >= batchMax || (memory.room > 0 && walking)) return true;
  const progress = moved || written.length > 0 || walking;
  return progress && cutOff(read.rows, keys, hasRoom);
}
