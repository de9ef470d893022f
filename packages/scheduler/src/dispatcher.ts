import type { HeldCounts, InFlight, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Leader, TickDue, TickRead } from '@pgqueue/postgres';
import { loadPolicyState, setFeed, settledMax } from '@pgqueue/postgres';
import { knowsAll, look } from './look.ts';
import type { Memory } from './memory.ts';
import { createMemory } from './memory.ts';
import type { Settings } from './options.ts';
import { createPace } from './pace.ts';
import type { SafePlan } from './planner.ts';
import { leftOut } from './skip-ahead.ts';
import { ask, cutOff, heldReasons, placesOf, toSnapshot } from './tick.ts';
import type { Writing } from './write-plan.ts';
import { writePlan } from './write-plan.ts';

export interface Dispatcher {
  /** One tick: reads, plans, writes. `woken`: only because jobs have ended. Resolves to the milliseconds until the next. */
  readonly tick: (leader: Leader, woken?: 'done') => Promise<number>;
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
}

/** What came of one tick. */
export interface TickReport {
  readonly leader: Leader;
  readonly held: HeldCounts;
  readonly forecast: SafePlan['forecast'];
  readonly snapshot: Snapshot;
  readonly dispatched: readonly InFlight[];
  /** Ended attempts that the policy's state does not have yet: they come again with the next snapshot. */
  readonly settled: Snapshot['settled'];
  readonly durationMs: number;
  /** Why a job waits: asked by others. */
  readonly questions: TickRead['questions'];
}

/** Hints, and the timers of workers, are no finer than this. */
const horizonMinMs = 20;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { settings, planner } = options;
  const pace = createPace(options);
  const memory = createMemory(settings.batchMax);

  const tick = async (leader: Leader, woken?: 'done'): Promise<number> => {
    const startedAt = performance.now();
    if (memory.epoch !== leader.epoch) await begin(options, memory, leader);
    const asked = ask(memory.room, memory.batch, memory.view.discovering());
    const due = pace.asksDue();
    const brief = woken === 'done' && !due && knowsAll(memory);
    const { read, load } = await look(options, memory, { ...asked, startedAt, due, brief });
    options.onSeen(read.state, read.due);
    const snapshot = toSnapshot(read, load, {
      ...memory,
      ...options.beside(read.state.now),
      batchMax: memory.batch,
      horizonMs: horizonOf(options, memory),
    });
    const planned = planner.plan(snapshot);
    const cutShort = memory.aside.note(planned, memory.view);
    if (!brief) {
      memory.skipAhead.note({
        rows: read.rows,
        reason: (id) => (memory.view.leftOut(id) ? leftOut : planned.reasons.get(id)),
        nowMs: startedAt,
      });
    }
    const { room, hasRoom } = placesOf(snapshot, planned.dispatch, memory.view);
    const written = await writePlan(options, memory, { leader, snapshot, planned });
    memory.room = room;
    const { held, forecast } = planned;
    const durationMs = performance.now() - startedAt;
    if (written.length > 0) memory.tickMs += (durationMs - memory.tickMs) * 0.2;
    memory.batch = batchAfter(memory, {
      jobs: planned.dispatch.length,
      durationMs,
      batchMax: settings.batchMax,
    });
    settings.observe({
      type: 'tick',
      dispatched: written.length,
      held: heldReasons(held, snapshot.queues),
      durationMs,
    });
    const { questions } = read;
    const { settled } = memory;
    options.onTick({ leader, snapshot, held, forecast, dispatched: written, settled, durationMs, questions });
    // what was refused is left out of the next plan: others may have its places
    const atOnce = asksAgain(memory, planned) || cutShort || written.length < planned.dispatch.length;
    const { batchMax } = snapshot;
    const more = mayHaveMore(memory, { batchMax, planned, read, keys: asked.keys, hasRoom, written, brief });
    memory.caughtUp = !atOnce && !more;
    const nextMs = planned.nextMs === null ? null : planned.nextMs - snapshot.nowMs;
    return pace.next({ jobs: written.length, atOnce, more, nextMs });
  };
  return { tick };
}

/** The first tick of a reign begins from what the last leader saved, and from the work items that are there. */
async function begin(
  { database, planner, settings }: DispatcherOptions,
  memory: Memory,
  leader: Leader,
): Promise<void> {
  const { view, ledger, consumption, skipAhead, aside } = memory;
  memory.feeds = planner.needs.settlements === true;
  // once a reign: it forgets what was recorded before
  if (memory.fedEpoch !== leader.epoch) await setFeed(database, leader, memory.feeds);
  memory.fedEpoch = leader.epoch;
  planner.restore(await loadPolicyState(database));
  for (const part of [view, ledger, skipAhead, aside]) part.reset();
  consumption.forget();
  memory.settled = [];
  memory.room = settings.batchMax;
  memory.caughtUp = false;
  memory.epoch = leader.epoch;
}

/**
 * Work items are made for as long as it takes until the next ones are there: a few ticks. More would be a line that a newcomer, another
 * key's first job, has to wait behind.
 */
function horizonOf({ settings, hearing }: DispatcherOptions, { tickMs }: Memory): number {
  return hearing() ? Math.min(settings.horizonMs, Math.max(horizonMinMs, 3 * tickMs)) : settings.horizonMs;
}

/** A tick should take no longer than this: who comes waits for it, whoever that is. */
const tickGoalMs = 50;
const batchMin = 500;

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
    readonly written: readonly InFlight[];
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
  const progress = moved || written.length > 0 || walking;
  const went = new Set(planned.dispatch.map(({ id }) => id));
  return progress && cutOff(read.rows, keys, { hasRoom, went });
}
