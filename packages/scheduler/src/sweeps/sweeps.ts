import type { Loop } from '@pgqueue/core/internal';
import { retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { Leader, TickDue, TickRead } from '@pgqueue/postgres/internal';
import {
  countActivity,
  expire,
  leadershipLostState,
  loseNodes,
  nextLossMs,
  maintainHistory,
  promote,
  reap,
  sqlState,
  trimFlows,
  trimHistory,
} from '@pgqueue/postgres/internal';
import type { SweepKind } from './agenda.ts';
import { createAgenda, everyMs, idleMs, kinds } from './agenda.ts';
import { fireDue } from '../cron/fire.ts';
import type { NodeSessions } from './node-sessions.ts';
import type { Settings } from '../options.ts';

/** Runs what becomes due by time. Works outside the ticks. */
export interface Sweeps {
  /**
   * Takes what a tick saw and schedules the sweeps. An idle scheduler thus runs no queries for sweeps, except
   * on the sessions of nodes.
   */
  readonly seen: (state: TickRead['state'], due: TickDue | null) => void;
  /** Call when a term begins. */
  readonly elected: () => void;
  readonly stuckMs: () => number;
  readonly stop: () => Promise<void>;
}

export interface SweepsOptions {
  readonly database: Database;
  readonly settings: Settings;
  readonly term: () => Leader | undefined;
  readonly lost: (epoch: number) => void;
  /** Undefined: only a missing heartbeat marks a node as lost. */
  readonly sessions: NodeSessions | undefined;
  /** Called when jobs became pending or work items were taken back. */
  readonly onWork: () => void;
}

/** Most rows changed by one sweep, in one transaction. A full sweep continues at once. */
const sweepMax = 1_000;
const hourMs = 3_600_000;
/**
 * Interval of counting ended jobs while nodes hold work items, the same while they hold none, and the longest
 * time of one count, all in milliseconds. Other sweeps wait during a count.
 */
const activityEveryMs = 5_000;
const activityIdleMs = 20_000;
const activityMaxMs = 100;

export function startSweeps(options: SweepsOptions): Sweeps {
  const { observe } = options.settings;
  const agenda = createAgenda();
  let nodes: ReadonlySet<string> = new Set();
  let busy = true;
  const run = async (kind: SweepKind, leader: Leader, signal: AbortSignal): Promise<void> => {
    agenda.begin(kind);
    try {
      const { again } = await sweepOnce(kind, { ...options, observe, leader, busy, signal });
      agenda.done(kind, again);
    } catch (error) {
      if (sqlState(error) === leadershipLostState) return options.lost(leader.epoch);
      observe({ type: 'database.error', during: kind, error, retryMs: agenda.failed(kind) });
    }
  };
  const loop: Loop = startLoop({
    step: async (signal) => {
      for (const kind of kinds) {
        const leader = options.term();
        if (leader === undefined || signal.aborted) return idleMs;
        if (agenda.due(kind)) await run(kind, leader, signal);
      }
      return agenda.waitMs();
    },
    failed: (error, count) => {
      observe({ type: 'database.error', during: 'sweep', error });
      return retryPauseMs(count);
    },
  });
  return {
    seen: (state, due) => {
      const before = agenda.waitMs();
      agenda.set('reap', state.expiredLeases ? 0 : null);
      if (state.lostNodes) agenda.set('loseNodes', 0);
      // ticks of a busy pool are seconds apart, so the time of the next possible loss is asked when a new
      // node appears
      if (state.nodes.some(({ id }) => !nodes.has(id))) agenda.set('nextLoss', 0);
      nodes = new Set(state.nodes.map(({ id }) => id));
      if (!busy && state.items.length > 0) {
        if (options.sessions !== undefined) agenda.set('sessions', 0);
        agenda.set('activity', activityEveryMs);
      }
      busy = state.items.length > 0;
      if (due !== null) {
        agenda.set('promote', due.promoteMs);
        agenda.set('expire', due.expireMs);
        agenda.set('cron', due.cronMs);
      }
      if (agenda.waitMs() < before) loop.wake();
    },
    elected: () => {
      agenda.clear();
      nodes = new Set();
      agenda.set('history', 0);
      agenda.set('trim', 0);
      agenda.set('loseNodes', 0); // and every hour, because it also forgets nodes that left a day ago
      if (options.sessions !== undefined) agenda.set('sessions', 0);
      agenda.set('activity', activityEveryMs);
      loop.wake();
    },
    stuckMs: loop.stuckMs,
    stop: loop.stop,
  };
}

/** Input of a sweep. */
export interface Sweep {
  readonly database: Database;
  readonly observe: Settings['observe'];
  readonly leader: Leader;
  readonly sessions?: NodeSessions | undefined;
  /** True if there are work items. Default true. */
  readonly busy?: boolean;
  /** Ends a sweep of many transactions early. */
  readonly signal?: AbortSignal;
  readonly onWork: () => void;
}

/** Result of one sweep. */
export interface Swept {
  /** Rows changed. */
  readonly count: number;
  /**
   * Milliseconds until the sweep is due again (0: at once, since it was full); null: not at all; undefined:
   * the ticks decide.
   */
  readonly again: number | null | undefined;
}

async function lose({ database, leader, observe, onWork }: Sweep, wellMs?: number): Promise<number> {
  const lost = await loseNodes(database, leader, wellMs);
  for (const { node, jobs } of lost) observe({ type: 'node.lost', node, jobs });
  if (lost.length > 0) onWork();
  return lost.length;
}

const trimAgainMs = { done: hourMs, locked: everyMs.history, more: everyMs.trim } as const;

/** Runs one sweep of a kind. */
export function sweepOnce(kind: SweepKind, sweep: Sweep): Promise<Swept> {
  return sweepers[kind](sweep);
}

const sweepers: Readonly<Record<SweepKind, (sweep: Sweep) => Promise<Swept>>> = {
  promote: async ({ database, leader, onWork }) => {
    const { promoted: count, nextDueMs } = await promote(database, leader, sweepMax);
    if (count > 0) onWork();
    // overdue jobs that were not promoted are locked by another transaction
    if (count === 0 && nextDueMs !== null) return { count, again: Math.max(100, nextDueMs) };
    return { count, again: nextDueMs === null ? null : Math.max(0, nextDueMs) };
  },
  cron: async ({ database, leader, observe, signal, onWork }) => {
    const count = await fireDue(database, leader, { observe, signal });
    if (count > 0) onWork();
    return { count, again: undefined };
  },
  expire: async ({ database, leader }) => {
    const count = await expire(database, leader, sweepMax);
    return { count, again: count >= sweepMax ? 0 : undefined };
  },
  // reads only the nodes: finding the leases of a lost node scans all work items, with the leader's row
  // locked meanwhile
  nextLoss: async (sweep) => {
    const dueMs = await nextLossMs(sweep.database);
    if (dueMs === null || dueMs > 0) return { count: 0, again: dueMs };
    const { count } = await sweepers.loseNodes(sweep);
    return { count, again: everyMs.nextLoss };
  },
  loseNodes: async (sweep) => ({ count: await lose(sweep), again: hourMs }),
  sessions: async (sweep) => {
    let count = 0;
    const again = await sweep.sessions?.look(sweep.leader, sweep.busy ?? true, async (wellMs) => {
      count = await lose(sweep, wellMs);
    });
    return { count, again: again ?? null };
  },
  reap: async ({ database, observe, onWork }) => {
    const count = await reap(database, sweepMax);
    if (count > 0) {
      observe({ type: 'leases.reaped', jobs: count });
      onWork();
    }
    return { count, again: count >= sweepMax ? 0 : undefined };
  },
  // separate from trim, since a long delete must not delay the creation of tomorrow's partition
  history: async ({ database }) => {
    const { created, dropped, outcome } = await maintainHistory(database);
    return {
      count: created + dropped,
      again: outcome === 'locked' || outcome === 'waits' ? everyMs.history : hourMs,
    };
  },
  trim: async ({ database }) => {
    const { deleted, outcome } = await trimHistory(database);
    const flows = await trimFlows(database);
    return { count: deleted + flows, again: flows > 0 ? everyMs.trim : trimAgainMs[outcome] };
  },
  activity: async ({ database, leader, busy }) => {
    const behindMs = await countActivity(database, leader, activityMaxMs);
    if (behindMs > 0) return { count: 0, again: everyMs.activity };
    return { count: 0, again: busy === false ? activityIdleMs : activityEveryMs };
  },
};
