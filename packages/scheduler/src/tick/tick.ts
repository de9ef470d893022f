import type { HeldCounts, Snapshot } from '@pgqueue/core';
import { countByTask, laneName } from '@pgqueue/core';
import type { Leader, TickDue, TickRead } from '@pgqueue/postgres';
import { loadPolicyState, setFeed, settledMax } from '@pgqueue/postgres';
import type { Behind } from '../state/background-rescan.ts';
import { createBehind } from '../state/background-rescan.ts';
import { createDispatchSpans } from './spans.ts';
import type { Flying } from '../state/items/item.ts';
import { knowsAll, look } from './read-snapshot.ts';
import type { Memory } from '../state/leader-state.ts';
import { createMemory } from '../state/leader-state.ts';
import type { Settings } from '../options.ts';
import type { Pace } from './poll-interval.ts';
import { createPace } from './poll-interval.ts';
import type { SafePlan } from '../policy/planner.ts';
import { leftOut } from '../state/lanes/lookahead.ts';
import type { News, Supposed } from './plan-from-hints.ts';
import { nothingWaits, suppose } from './plan-from-hints.ts';
import { ask, cutOff, heldReasons, placesOf, toSnapshot } from './snapshot.ts';
import type { Writing } from './write-plan.ts';
import { heldFresh } from '../policy/why-held.ts';
import { writePlan } from './write-plan.ts';

export interface Dispatcher {
  /** One tick: reads, plans, writes. `news`: it was woken only by hints that said this. Resolves to the milliseconds until the next. */
  readonly tick: (leader: Leader, news?: News) => Promise<number>;
  /** A connection broke: a server that crashed may have forgotten the last work items, whose jobs wait where they stood. */
  readonly serverLost: () => void;
  /** What it does beside its ticks has ended. */
  readonly settled: () => Promise<void>;
}

export interface DispatcherOptions extends Writing {
  readonly settings: Settings;
  /** What is fetched beside the ticks. */
  readonly beside: (nowMs: number) => Pick<Snapshot, 'health' | 'prepared'>;
  /** Whether hints are heard at present; without, a tick that found nothing must come again sooner. */
  readonly hearing: () => boolean;
  /** What the sweeps have to do, as far as this tick could see. */
  readonly onSeen: (state: TickRead['state'], due: TickDue | null) => void;
  readonly onTick: (tick: TickReport) => void;
  /** Where to look for open questions why a job waits. */
  readonly questionsAfter: () => number;
  /** A tick failed, or a connection broke. */
  readonly onServerLost: () => void;
}

/** What came of one tick. */
export interface TickReport {
  readonly leader: Leader;
  readonly held: HeldCounts;
  readonly forecast: SafePlan['forecast'];
  readonly snapshot: Snapshot;
  /** Jobs in flight before that. */
  readonly inFlight: number;
  readonly dispatched: Flying;
  /** Ended attempts that the policy's state does not have yet: they come again with the next snapshot. */
  readonly settled: Snapshot['settled'];
  readonly durationMs: number;
  readonly unreadable: ReturnType<Memory['unreadable']['current']>;
  /** Why a job waits: asked by others. */
  readonly questions: TickRead['questions'];
}

/**
 * As long as what a node claims ahead of its slots: jobs that take no time go in larger batches, which take less of everything. With 60 ms a job of a
 * drain took 51 µs of processors, with 20 it took 56.
 */
const horizonMinMs = 50;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { settings, planner } = options;
  const pace = createPace(options);
  const memory = createMemory(settings);
  const spans = createDispatchSpans(options.database);
  const behind = createBehind({ ...options, ...settings });
  const looks = { ...options, pace, behind };

  const tick = async (leader: Leader, news?: News): Promise<number> => {
    const startedAt = performance.now();
    if (memory.epoch !== leader.epoch) await begin(options, memory, leader);
    if (news !== undefined && nothingWaits(memory, news, startedAt)) return skip(pace, memory);
    // where what hints say is not so: what was enqueued is looked for
    const again = news?.jobs.length === 0 ? { ended: [], jobs: [] } : undefined;
    const { read, load, flying, guess, keys, brief, owes } = await see(looks, memory, { news, startedAt });
    const snapshot = toSnapshot(read, load, {
      ...memory,
      flying,
      ...options.beside(read.state.now),
      batchMax: memory.batch,
      horizonMs: horizonOf(options, memory),
    });
    const planned = planner.plan(snapshot);
    if (guess !== undefined && (planned.dispatch.length === 0 || planned.recall.length > 0)) {
      planner.dropped();
      guess.undo();
      return tick(leader, again);
    }
    const cutShort = memory.aside.note(planned, memory.view);
    memory.view.planned({ ...planned, keeps: memory.skipAhead.walks });
    if (!brief) noteHeld(memory, planned, { rows: read.rows, nowMs: startedAt });
    const { room, hasRoom } = placesOf(snapshot, planned.dispatch);
    const plan = { leader, snapshot, planned, ready: flying.count, supposed: guess?.supposed };
    const written = await writePlan(options, memory, plan);
    if (written === null) {
      guess?.undo();
      return tick(leader, again);
    }
    guess?.confirm();
    const { held, forecast, dispatch } = planned;
    const durationMs = performance.now() - startedAt;
    const looked = guess === undefined;
    remember(memory, settings, { room, jobs: dispatch.length, written: written.count, durationMs, looked });
    tellTick(settings, snapshot, { held, written, durationMs });
    spans.written(written, durationMs);
    const { settled } = memory;
    const inFlight = flying.count;
    const told = { leader, snapshot, held, forecast, inFlight, dispatched: written, settled, durationMs };
    options.onTick({ ...told, questions: read.questions, unreadable: memory.unreadable.current() });
    // what was refused is left out of the next plan: others may have its places
    const atOnce = asksAgain(memory, planned) || cutShort || written.count < dispatch.length;
    const { batchMax } = snapshot;
    const more = mayHaveMore(memory, { batchMax, planned, read, keys, hasRoom, written, brief });
    memory.caughtUp = !atOnce && !more;
    const nextMs = soonest(
      planned.nextMs === null ? null : planned.nextMs - snapshot.nowMs,
      memory.cursors.dueMs(startedAt),
    );
    memory.owesLook = owes;
    const waitMs = pace.next({ jobs: written.count, atOnce, more, nextMs });
    return owes ? 0 : waitMs;
  };
  const serverLost = (): void => forgetPlaces(options, memory);
  const failed = (error: unknown): never => {
    serverLost();
    throw error;
  };
  return {
    tick: (leader, news) => tick(leader, news).catch(failed),
    serverLost,
    settled: behind.settled,
  };
}

/** Behind jobs that are held others may be able to go. */
function noteHeld(
  { view, skipAhead }: Memory,
  { holds }: SafePlan,
  seen: { readonly rows: TickRead['rows']; readonly nowMs: number },
): void {
  const held = heldFresh(holds, view.fresh());
  skipAhead.note({ ...seen, reason: (id) => (view.leftOut(id) ? leftOut : held(id)) });
}

function forgetPlaces({ onServerLost }: DispatcherOptions, { cursors }: Memory): void {
  cursors.reset();
  onServerLost();
}

function tellTick(
  { observe }: Settings,
  { queues }: Snapshot,
  tick: { readonly held: HeldCounts; readonly written: Flying; readonly durationMs: number },
): void {
  const { held, written, durationMs } = tick;
  observe({
    type: 'tick',
    dispatched: written.count,
    batch: countByTask(written.items.flatMap(({ jobs }) => jobs)),
    held: heldReasons(held, queues),
    durationMs,
  });
}

/** A tick that has nothing to do. Returns the milliseconds until the next. */
function skip(pace: Pace, memory: Memory): number {
  memory.owesLook = pace.skips();
  return memory.owesLook ? 0 : pace.next({ jobs: 0, atOnce: false, more: false, nextMs: null });
}

/** What a plan is made from. */
interface Seen extends Pick<Supposed, 'read' | 'load' | 'flying'> {
  /** It was not read. */
  readonly guess: Supposed | undefined;
  /** Lanes of a full page. */
  readonly keys: number;
  /** What waits was not looked at. */
  readonly brief: boolean;
  /** The next tick must look. */
  readonly owes: boolean;
}

/** What hints say, where that is enough; else what is there. */
async function see(
  options: DispatcherOptions & { readonly pace: Pace; readonly behind: Behind },
  memory: Memory,
  { news, startedAt }: { readonly news: News | undefined; readonly startedAt: number },
): Promise<Seen> {
  const { keys, ...asked } = ask(memory, memory.view.discovers());
  const guess = news === undefined ? undefined : suppose(memory, news, startedAt);
  if (guess !== undefined) return { ...guess, guess, keys, brief: true, owes: options.pace.skips() };
  const due = options.pace.asksDue(news !== undefined);
  const brief = news?.jobs.length === 0 && !due && knowsAll(memory);
  const seen = await look(options, memory, { ...asked, keys, startedAt, due, brief });
  options.onSeen(seen.read.state, seen.read.due);
  return { ...seen, flying: memory.ledger.flying(), guess, keys, brief, owes: false };
}

/** The first tick of a reign begins from what the last leader saved, and from the work items that are there. */
async function begin(
  { database, planner, settings }: DispatcherOptions,
  memory: Memory,
  leader: Leader,
): Promise<void> {
  const { view, ledger, consumption, skipAhead, aside, cursors, unreadable } = memory;
  memory.feeds = planner.needs.settlements === true;
  // once a reign: it forgets what was recorded before
  if (memory.fedEpoch !== leader.epoch) await setFeed(database, leader, memory.feeds);
  memory.fedEpoch = leader.epoch;
  planner.restore(await loadPolicyState(database));
  for (const part of [view, ledger, skipAhead, aside, cursors, unreadable]) part.reset();
  consumption.forget();
  memory.settled = [];
  memory.room = settings.batchMax;
  memory.caughtUp = false;
  Object.assign(memory.items, { floor: 0, rescanAt: -Infinity });
  memory.lastLook = undefined;
  Object.assign(memory, { seq: 0, ended: [], owesLook: false });
  memory.epoch = leader.epoch;
}

/**
 * Work items are made for as long as it takes until the next ones are there: a few ticks. More would be a line that a newcomer, another
 * key's first job, has to wait behind.
 */
function horizonOf({ settings, hearing }: DispatcherOptions, { tickMs }: Memory): number {
  return hearing() ? Math.min(settings.horizonMs, Math.max(horizonMinMs, 3 * tickMs)) : settings.horizonMs;
}

function soonest(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** A tick should take no longer than this: who comes waits for it, whoever that is. */
const tickGoalMs = 50;
/** Where thousands of lanes wait, most of a tick goes through those: with half as many jobs it is hardly shorter, and each job costs twice as much. */
const batchMin = 1_000;

/**
 * What the next tick goes by. `looked`: it was not supposed, which takes half of the time, and says nothing about how long work items
 * must last.
 */
function remember(
  memory: Memory,
  { batchMax }: Settings,
  tick: {
    readonly room: number;
    readonly jobs: number;
    readonly written: number;
    readonly durationMs: number;
    readonly looked: boolean;
  },
): void {
  const { room, written, durationMs, looked } = tick;
  [memory.room, memory.dispatched] = [room, written];
  if (written > 0 && looked) memory.tickMs += (durationMs - memory.tickMs) * 0.2;
  memory.batch = batchAfter(memory, { ...tick, batchMax });
}

/** Smaller batches where full ones make slow ticks (a slow database, thousands of lanes), larger ones again where they do not. */
function batchAfter(
  { batch }: Memory,
  tick: { readonly jobs: number; readonly durationMs: number; readonly batchMax: number },
): number {
  const { jobs, durationMs, batchMax } = tick;
  if (durationMs > tickGoalMs && jobs * 2 > batch)
    return Math.max(Math.min(batchMin, batchMax), Math.ceil(batch * 0.8));
  return durationMs < tickGoalMs / 2 ? Math.min(batchMax, Math.ceil(batch * 1.1)) : batch;
}

/** Lanes wait to be read before they can be judged. */
function asksAgain({ view }: Memory, planned: SafePlan): boolean {
  view.want((planned.stale ?? []).map((lane) => [lane, 1] as const));
  view.want(planned.deepen ?? []);
  return planned.recall.length > 0 || (planned.stale ?? []).length > 0 || (planned.deepen?.size ?? 0) > 0;
}

function mayHaveMore(
  memory: Memory,
  tick: {
    readonly batchMax: number;
    readonly planned: SafePlan;
    readonly read: TickRead;
    readonly keys: number;
    readonly hasRoom: (queue: string) => boolean;
    readonly written: Flying;
    readonly brief: boolean;
  },
): boolean {
  const { batchMax, planned, read, keys, hasRoom, written, brief } = tick;
  if (brief) return planned.dispatch.length >= batchMax || read.state.settled.length >= settledMax;
  const walking = memory.skipAhead.walking();
  const last = read.rows.findLast(({ paged }) => paged);
  const after = last === undefined ? '' : laneName(last);
  const moved = after !== memory.after;
  memory.after = after;
  if (planned.dispatch.length >= batchMax || (memory.room > 0 && walking)) return true;
  if (read.state.settled.length >= settledMax) return true;
  const progress = moved || written.count > 0 || walking;
  const went = new Set(planned.dispatch.map(({ id }) => id));
  return progress && cutOff(read.rows, keys, { hasRoom, went });
}
