import type { HeldCounts, Snapshot } from '@pgqueue/core';
import { countByTask, soonest } from '@pgqueue/core/internal';
import type { Leader, TickRead } from '@pgqueue/postgres/internal';
import { endHolds, loadPolicyState, setFeed, wakeNodes } from '@pgqueue/postgres/internal';
import type { Behind } from '../state/background-rescan.ts';
import { createBehind } from '../state/background-rescan.ts';
import { createDispatchSpans } from './spans.ts';
import { isTracing } from '@pgqueue/telemetry/internal';
import type { Flying } from '../state/items/item.ts';
import type { Backlog, PlanWritten } from '../state/backlog.ts';
import { backlogOf, isBehind } from '../state/backlog.ts';
import type { Looking } from './read-snapshot.ts';
import { knowsAll, look } from './read-snapshot.ts';
import type { LeaderState } from '../state/leader-state.ts';
import { createLeaderState } from '../state/leader-state.ts';
import type { Settings } from '../options.ts';
import { remember } from './batch-size.ts';
import { dispatchMore } from './dispatch-backlog.ts';
import type { PollInterval } from './poll-interval.ts';
import { createPollInterval } from './poll-interval.ts';
import type { SafePlan } from '../policy/planner.ts';
import { leftOut } from '../state/lanes/lookahead.ts';
import type { News, Supposed } from './plan-from-hints.ts';
import { nothingWaits, suppose, withoutKnown } from './plan-from-hints.ts';
import { ask, heldReasons, mayHaveMore, placesOf, toSnapshot } from './snapshot.ts';
import type { Writing } from './write-plan.ts';
import { heldFresh } from '../policy/why-held.ts';
import { writePlan } from './write-plan.ts';

export interface Dispatcher {
  /**
   * Runs one tick: read, plan, write. `news`: content of the hints, if only hints woke this tick. Resolves to
   * the milliseconds until the next tick.
   */
  readonly tick: (leader: Leader, news?: News) => Promise<number>;
  /** Returns the milliseconds for which a tick that must read is to wait. */
  readonly restMs: () => number;
  /**
   * Call when a connection broke: a server that crashed may have lost the last work items, and their jobs
   * wait below the lane cursors.
   */
  readonly serverLost: () => void;
  /** Resolves when the background work outside the ticks has ended. */
  readonly settled: () => Promise<void>;
}

export interface DispatcherOptions extends Writing {
  readonly settings: Settings;
  /** Values fetched outside the ticks. */
  readonly beside: (nowMs: number) => Pick<Snapshot, 'health' | 'prepared'>;
  /** Reports whether hints are being received. Without hints, idle ticks come more often. */
  readonly hearing: () => boolean;
  /** Receives what this tick read. */
  readonly onSeen: (read: TickRead) => void;
  readonly onTick: (tick: TickReport) => void;
  /** Question number after which to look for open explain questions. */
  readonly questionsAfter: () => number;
  /** Call when a tick failed or a connection broke. */
  readonly onServerLost: () => void;
}

/** Result of one tick. */
export interface TickReport {
  readonly leader: Leader;
  readonly held: HeldCounts;
  readonly forecast: SafePlan['forecast'];
  readonly snapshot: Snapshot;
  /** Work items before this tick's dispatch. */
  readonly flying: Flying;
  readonly nodes: TickRead['state']['nodes'];
  readonly dispatched: Flying;
  /** Ended attempts that the policy's state does not include yet; the next snapshot contains them again. */
  readonly settled: Snapshot['settled'];
  readonly durationMs: number;
  readonly unreadable: ReturnType<LeaderState['unreadable']['current']>;
  /** Jobs that ticks leave out for now, because they could not be written or can't be read. */
  readonly leftOut: ReadonlySet<string>;
  /** Open explain questions. */
  readonly questions: TickRead['questions'];
}

/**
 * Shortest horizon, in milliseconds; matches the time a node prefetches. Jobs that take no time then go in
 * larger batches, which cost less per job. In a drain, a job took 51 µs of CPU with 60 ms, and 56 µs with 20
 * ms.
 */
const horizonMinMs = 50;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { settings, planner } = options;
  const pollInterval = createPollInterval(options);
  let state = createLeaderState(settings);
  const spans = createDispatchSpans(options.database);
  const behind = createBehind({ ...options, ...settings });
  const looks = { ...options, pollInterval, behind };

  const tick = async (leader: Leader, news?: News): Promise<number> => {
    const startedAt = performance.now();
    if (state.epoch !== leader.epoch) state = await begin(options, state, leader);
    if (state.backlog !== undefined && isBehind(state.backlog, news)) {
      const waitMs = await goOn(looks, state, state.backlog, { leader, startedAt });
      if (waitMs !== undefined) return waitMs;
    } else state.backlog = undefined;
    if (news !== undefined && nothingWaits(state, news, startedAt)) return skip(pollInterval, state);
    // if the plan from hints is not written, the retry reads: waiting jobs only if the hints named new ones
    const again = news?.jobs.length === 0 ? { ended: null, jobs: [] } : undefined;
    const { read, load, flying, guess, keys, brief, owes } = await see(looks, state, { news, startedAt });
    const snapshot = snapshotOf(options, state, { read, load, flying });
    const planned = planner.plan(snapshot);
    if (guess !== undefined && (planned.dispatch.length === 0 || planned.recall.length > 0)) {
      planner.dropped();
      guess.undo();
      return tick(leader, again);
    }
    const cutShort = state.deferred.note(planned, state.laneCache);
    state.laneCache.planned({ ...planned, keeps: state.lookahead.walks });
    if (!brief) noteHeld(state, planned, { lanes: read.lanes, nowMs: startedAt });
    const places = placesOf(snapshot, planned.dispatch);
    const plan = { leader, snapshot, planned, supposed: guess?.supposed, load, flying };
    const written = await writePlan(options, state, plan);
    if (written === null) {
      guess?.undo();
      return tick(leader, again);
    }
    guess?.confirm();
    const { held, forecast, dispatch } = planned;
    const durationMs = performance.now() - startedAt;
    remember(state, settings, {
      ...places,
      jobs: dispatch.length,
      written: written.count,
      durationMs,
      looked: guess === undefined,
    });
    spans.written(written, durationMs);
    const told = { leader, snapshot, held, forecast, flying, durationMs };
    tell(options, state, { ...told, dispatched: written, questions: read.questions });
    await endMoves(options, state, leader);
    // refused jobs are left out of the next plan, so others may take their slots
    const atOnce =
      asksAgain(state, planned, { ...places, nowMs: startedAt }) ||
      cutShort ||
      written.count < dispatch.length;
    const more = mayHaveMore(state, { ...places, snapshot, planned, read, keys, written, brief });
    state.caughtUp = !atOnce && !more;
    state.owesLook = owes;
    const seen = { snapshot, planned, written, readAt: startedAt, tookMs: durationMs };
    const whole = !brief && !cutShort && written.count === dispatch.length;
    state.backlog = whole ? findBacklog(options, state, seen) : undefined;
    const openMs = planned.nextMs === null ? null : planned.nextMs - snapshot.nowMs;
    const nextMs = soonest(openMs, state.cursors.dueMs(startedAt));
    const waitMs = pollInterval.next({ jobs: written.count, atOnce, more, nextMs });
    return owes ? 0 : untilRead(state, waitMs);
  };
  const serverLost = (): void => forgetPlaces(options, state);
  const failed = (error: unknown): never => {
    serverLost();
    throw error;
  };
  return {
    tick: (leader, news) => tick(leader, news && withoutKnown(state, news)).catch(failed),
    restMs: pollInterval.restMs,
    serverLost,
    settled: behind.settled,
  };
}

/** Returns the backlog that a plan leaves, if the rules allow to dispatch it without reading its jobs. */
function findBacklog(
  { settings }: DispatcherOptions,
  { laneCache, lookahead, feeds }: LeaderState,
  plan: PlanWritten,
): Backlog | undefined {
  // spans name their jobs
  if (
    !settings.alike ||
    feeds ||
    isTracing() ||
    !laneCache.whole() ||
    laneCache.leftOut().size > 0 ||
    lookahead.walking()
  )
    return undefined;
  return backlogOf(laneCache, plan);
}

/**
 * Runs a tick that dispatches jobs of a backlog and reads only what is in flight. Resolves to the milliseconds until the
 * next tick; undefined: the waiting jobs must be read.
 */
async function goOn(
  options: Looks,
  state: LeaderState,
  backlog: Backlog,
  { leader, startedAt }: { readonly leader: Leader; readonly startedAt: number },
): Promise<number | undefined> {
  const { settings, pollInterval } = options;
  const { unheard, cursors } = state;
  if (startedAt >= backlog.untilMs || unheard.dueAt() < Infinity || pollInterval.skips()) return undefined;
  const asked = ask(state, state.laneCache.discovers());
  const { read, load } = await lookAndTell(options, state, { ...asked, startedAt, due: false, brief: true });
  const flying = state.inFlight.flying();
  const snapshot = snapshotOf(options, state, { read, load, flying });
  const went = await dispatchMore(options, state, backlog, { leader, load, snapshot, flying });
  if (went === undefined) return undefined;
  const { room, written } = went;
  const { held, forecast } = backlog;
  const durationMs = performance.now() - startedAt;
  remember(state, settings, { room, jobs: written.count, written: written.count, durationMs, looked: true });
  const told = { leader, snapshot, held, forecast, flying, durationMs };
  tell(options, state, { ...told, dispatched: written, questions: read.questions });
  state.caughtUp = false;
  const nextMs = cursors.dueMs(startedAt);
  const atOnce = state.backlog === undefined;
  return untilRead(state, pollInterval.next({ jobs: written.count, atOnce, more: false, nextMs }));
}

function snapshotOf(
  options: DispatcherOptions,
  state: LeaderState,
  { read, load, flying }: Pick<PlanInput, 'read' | 'load' | 'flying'>,
): Snapshot {
  return toSnapshot(read, load, {
    ...state,
    flying,
    ...options.beside(read.state.now),
    batchMax: state.batch,
    horizonMs: horizonOf(options, state),
  });
}

/** Notes the jobs held in the lanes just read, since jobs behind them may be able to go. */
function noteHeld(
  { laneCache, lookahead }: LeaderState,
  { holds }: SafePlan,
  seen: { readonly lanes: TickRead['lanes']; readonly nowMs: number },
): void {
  const held = heldFresh(holds, laneCache.fresh());
  const left = laneCache.leftOut();
  lookahead.note({ ...seen, reason: (id) => (left.has(id) ? leftOut : held(id)) });
}

function forgetPlaces({ onServerLost }: DispatcherOptions, state: LeaderState): void {
  state.cursors.reset();
  state.backlog = undefined;
  onServerLost();
}

/** Tells of a tick, once it has written. */
function tell(
  { settings, onTick }: DispatcherOptions,
  { settled, nodes, unreadable, laneCache }: LeaderState,
  tick: Omit<TickReport, 'settled' | 'nodes' | 'unreadable' | 'leftOut'>,
): void {
  const { held, snapshot, dispatched, durationMs } = tick;
  settings.observe({
    type: 'tick',
    dispatched: dispatched.count,
    batch: countByTask(dispatched.items.flatMap(({ jobs }) => jobs)),
    held: heldReasons(held, snapshot.queues),
    durationMs,
  });
  onTick({ ...tick, settled, nodes, unreadable: unreadable.current(), leftOut: laneCache.leftOut() });
}

/** Ends the holds of keys whose moves are over. */
async function endMoves(
  { database }: DispatcherOptions,
  { moving }: LeaderState,
  leader: Leader,
): Promise<void> {
  const over = moving.over();
  if (over.length > 0) await endHolds(database, leader, over);
}

/** Ends a tick that has nothing to do. Returns the milliseconds until the next. */
function skip(pollInterval: PollInterval, state: LeaderState): number {
  state.owesLook = pollInterval.skips();
  const waitMs = pollInterval.next({ jobs: 0, atOnce: false, more: false, nextMs: null });
  return state.owesLook ? 0 : untilRead(state, waitMs);
}

/** Returns the shorter of this wait and the time until what hints passed over must be read. */
function untilRead({ unheard }: LeaderState, waitMs: number): number {
  return Math.max(0, Math.min(waitMs, unheard.dueAt() - performance.now()));
}

/** Input of a plan. */
interface PlanInput extends Pick<Supposed, 'read' | 'load' | 'flying'> {
  /** The assumptions, if the snapshot was built from hints; undefined if it was read. */
  readonly guess: Supposed | undefined;
  /** Number of lanes in a full page. */
  readonly keys: number;
  /** True if waiting jobs were not read. */
  readonly brief: boolean;
  /** True if the next tick must read. */
  readonly owes: boolean;
}

/** Dependencies of a read. */
interface Looks extends DispatcherOptions {
  readonly pollInterval: PollInterval;
  readonly behind: Behind;
}

/** Reads the database, and tells those who wait for it what was seen. */
async function lookAndTell(options: Looks, state: LeaderState, looking: Looking): ReturnType<typeof look> {
  const seen = await look(options, state, looking);
  options.onSeen(seen.read);
  if (state.wakes.overlooked(state.inFlight.flying().items, seen.read.state.now))
    void wakeNodes(options.database);
  return seen;
}

/** Builds the input from hints if they suffice, else reads the database. */
async function see(
  options: Looks,
  state: LeaderState,
  { news, startedAt }: { readonly news: News | undefined; readonly startedAt: number },
): Promise<PlanInput> {
  const { keys, ...asked } = ask(state, state.laneCache.discovers());
  const guess = news === undefined ? undefined : suppose(state, news, startedAt);
  if (guess !== undefined) {
    state.backlog = undefined;
    return { ...guess, guess, keys, brief: true, owes: options.pollInterval.skips() };
  }
  const due = options.pollInterval.asksDue(news !== undefined);
  const brief = news?.jobs.length === 0 && !due && knowsAll(state) && state.unheard.dueAt() === Infinity;
  const seen = await lookAndTell(options, state, { ...asked, keys, startedAt, due, brief });
  return { ...seen, flying: state.inFlight.flying(), guess, keys, brief, owes: false };
}

/**
 * Starts a term from the policy state that the last leader saved. All else is read again, and only measurements are
 * kept. Nothing is if it fails.
 */
async function begin(
  { database, planner, settings }: DispatcherOptions,
  before: LeaderState,
  leader: Leader,
): Promise<LeaderState> {
  const { epoch } = leader;
  const feeds = planner.needs.settlements === true;
  // once per term, because it deletes what was recorded before
  if (before.fedEpoch !== epoch) await setFeed(database, leader, feeds);
  before.fedEpoch = epoch;
  planner.restore(await loadPolicyState(database));
  const { consumption, batch, tickMs, nowMs } = before;
  consumption.forget();
  const measured = { consumption, batch, tickMs, nowMs };
  return { ...createLeaderState(settings), ...measured, feeds, epoch, fedEpoch: epoch };
}

/**
 * Returns the horizon: work items must last until the next tick's are there, which is a few ticks. A longer
 * queue of ready items would delay a new key's first job.
 */
function horizonOf({ settings, hearing }: DispatcherOptions, { tickMs }: LeaderState): number {
  return hearing() ? Math.min(settings.horizonMs, Math.max(horizonMinMs, 3 * tickMs)) : settings.horizonMs;
}

/**
 * Reports whether the plan needs another tick at once, and requests the lanes that must be read before they
 * can be judged.
 */
function asksAgain(
  { laneCache, openPages, moving }: LeaderState,
  planned: SafePlan,
  places: ReturnType<typeof placesOf> & { readonly nowMs: number },
): boolean {
  laneCache.want((planned.stale ?? []).map((lane) => [lane, 1] as const));
  laneCache.want(planned.deepen ?? []);
  const inTurn = openPages.planned({ ...laneCache, ...places });
  const unread = (planned.stale ?? []).length > 0 || (planned.deepen?.size ?? 0) > 0;
  return inTurn || planned.recall.length > 0 || unread || moving.waits();
}
