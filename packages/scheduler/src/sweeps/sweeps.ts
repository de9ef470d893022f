import type { Loop } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { Database, Leader, TickDue, TickRead } from '@pgqueue/postgres';
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
  trimHistory,
} from '@pgqueue/postgres';
import { fireDue } from './cron.ts';
import type { NodeSessions } from './node-sessions.ts';
import type { Settings } from '../options.ts';

/** Beside the ticks, on a connection of its own: what becomes due by time. */
export interface Sweeps {
  /** What a tick saw: sets when each sweep runs next, so that an idle scheduler spends a query on none but the sessions of nodes. */
  readonly seen: (state: TickRead['state'], due: TickDue | null) => void;
  /** A new reign has begun. */
  readonly elected: () => void;
  readonly stuckMs: () => number;
  readonly stop: () => Promise<void>;
}

export interface SweepsOptions {
  readonly database: Database;
  readonly settings: Settings;
  readonly reign: () => Leader | undefined;
  readonly lost: (epoch: number) => void;
  /** Undefined: nodes are lost by their silence alone. */
  readonly sessions: NodeSessions | undefined;
  /** Jobs became pending, or work items were taken back. */
  readonly onWork: () => void;
}

/** What becomes due by time. */
export type Kind =
  | 'promote'
  | 'cron'
  | 'expire'
  | 'nextLoss'
  | 'sessions'
  | 'loseNodes'
  | 'reap'
  | 'history'
  | 'trim'
  | 'activity';

/** Rows that one sweep changes at most, in one transaction; a full one goes on at once. */
const sweepMax = 1_000;
const hourMs = 3_600_000;
/** How soon a sweep may follow itself. Promoting, cron and lost nodes are at their time; the others are never urgent. */
const everyMs: Readonly<Record<Kind, number>> = {
  promote: 0,
  cron: 50,
  expire: 1_000,
  nextLoss: 100,
  sessions: 0,
  loseNodes: 100,
  reap: 1_000,
  history: 60_000,
  trim: 1_000,
  activity: 1_000,
};
const kinds = Object.keys(everyMs) as readonly Kind[];
const idleMs = hourMs;
/** How often what ended is counted, while nodes hold work items and while they hold none; and for how long at once: other sweeps wait meanwhile. */
const activityEveryMs = 5_000;
const activityIdleMs = 20_000;
const activityMaxMs = 100;

export function startSweeps(options: SweepsOptions): Sweeps {
  const { observe } = options.settings;
  const agenda = createAgenda();
  let nodes: ReadonlySet<string> = new Set();
  let busy = true;
  const run = async (kind: Kind, leader: Leader): Promise<void> => {
    agenda.begin(kind);
    try {
      const { again } = await sweepOnce(kind, { ...options, observe, leader, busy });
      agenda.done(kind, again);
    } catch (error) {
      if (sqlState(error) === leadershipLostState) return options.lost(leader.epoch);
      observe({ type: 'database.error', during: kind, error, retryMs: agenda.failed(kind) });
    }
  };
  const loop: Loop = startLoop({
    step: async (signal) => {
      for (const kind of kinds) {
        const leader = options.reign();
        if (leader === undefined || signal.aborted) return idleMs;
        if (agenda.due(kind)) await run(kind, leader);
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
      // ticks of a busy pool are seconds apart: when the next node could be lost is asked once, and again when there are others
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
      agenda.set('loseNodes', 0); // and every hour: it also forgets nodes that left a day ago
      if (options.sessions !== undefined) agenda.set('sessions', 0);
      agenda.set('activity', activityEveryMs);
      loop.wake();
    },
    stuckMs: loop.stuckMs,
    stop: loop.stop,
  };
}

/** When each sweep is due, by the monotonic clock. */
interface Agenda {
  /** In so many milliseconds, but not sooner than its pause allows; null: not at all. */
  readonly set: (kind: Kind, inMs: number | null) => void;
  readonly due: (kind: Kind) => boolean;
  readonly begin: (kind: Kind) => void;
  /** `again`: as for set; 0 at once, whatever its pause; undefined: the ticks will say. */
  readonly done: (kind: Kind, again: number | null | undefined) => void;
  /** Milliseconds until it is tried again. */
  readonly failed: (kind: Kind) => number;
  /** Until the next is due. */
  readonly waitMs: () => number;
  readonly clear: () => void;
}

function createAgenda(): Agenda {
  const dueAt = new Map<Kind, number>();
  const lastAt = new Map<Kind, number>();
  const failures = new Map<Kind, number>();
  const set: Agenda['set'] = (kind, inMs) => {
    // a sweep that failed keeps its pause, whatever the ticks say
    if (failures.has(kind)) return;
    if (inMs === null) {
      dueAt.delete(kind);
      return;
    }
    const earliest = (lastAt.get(kind) ?? -Infinity) + everyMs[kind];
    dueAt.set(kind, Math.max(earliest, performance.now() + inMs));
  };
  return {
    set,
    due: (kind) => (dueAt.get(kind) ?? Infinity) <= performance.now(),
    begin: (kind) => {
      dueAt.delete(kind);
      lastAt.set(kind, performance.now());
    },
    done: (kind, again) => {
      failures.delete(kind);
      if (again !== undefined) set(kind, again);
      if (again === 0) dueAt.set(kind, performance.now());
    },
    failed: (kind) => {
      const count = (failures.get(kind) ?? 0) + 1;
      failures.set(kind, count);
      const retryMs = retryPauseMs(count);
      dueAt.set(kind, performance.now() + retryMs);
      return retryMs;
    },
    waitMs: () => Math.ceil(Math.min(idleMs, Math.max(0, Math.min(...dueAt.values()) - performance.now()))),
    clear: () => {
      for (const map of [dueAt, lastAt, failures]) map.clear();
    },
  };
}

/** What a sweep works with. */
export interface Sweep {
  readonly database: Database;
  readonly observe: Settings['observe'];
  readonly leader: Leader;
  readonly sessions?: NodeSessions | undefined;
  /** Whether there are work items. Default true. */
  readonly busy?: boolean;
  readonly onWork: () => void;
}

/** What one sweep did. */
export interface Swept {
  /** Rows that it changed. */
  readonly count: number;
  /** In how many milliseconds it is due again (0: it was full), null for not at all, or undefined: the ticks will say. */
  readonly again: number | null | undefined;
}

async function lose({ database, leader, observe, onWork }: Sweep, wellMs?: number): Promise<number> {
  const lost = await loseNodes(database, leader, wellMs);
  for (const { node, jobs } of lost) observe({ type: 'node.lost', node, jobs });
  if (lost.length > 0) onWork();
  return lost.length;
}

const trimAgainMs = { done: hourMs, locked: everyMs.history, more: everyMs.trim } as const;

/** One sweep of one kind: a transaction. */
export function sweepOnce(kind: Kind, sweep: Sweep): Promise<Swept> {
  return sweepers[kind](sweep);
}

const sweepers: Readonly<Record<Kind, (sweep: Sweep) => Promise<Swept>>> = {
  promote: async ({ database, leader, onWork }) => {
    const { promoted: count, nextDueMs } = await promote(database, leader, sweepMax);
    if (count > 0) onWork();
    // what is overdue and was not promoted is locked by someone
    if (count === 0 && nextDueMs !== null) return { count, again: Math.max(100, nextDueMs) };
    return { count, again: nextDueMs === null ? null : Math.max(0, nextDueMs) };
  },
  cron: async ({ database, leader, observe, onWork }) => {
    const count = await fireDue(database, leader, observe);
    if (count > 0) onWork();
    return { count, again: undefined };
  },
  expire: async ({ database, leader }) => {
    const count = await expire(database, leader, sweepMax);
    return { count, again: count >= sweepMax ? 0 : undefined };
  },
  // by the nodes alone: whose leases they are is looked for among all work items, which holds the leader's row meanwhile
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
  // partitions first, and each by itself: what deletes for long must not keep tomorrow's from being made
  history: async ({ database }) => {
    const { created, dropped, outcome } = await maintainHistory(database);
    return {
      count: created + dropped,
      again: outcome === 'locked' || outcome === 'waits' ? everyMs.history : hourMs,
    };
  },
  trim: async ({ database }) => {
    const { deleted, outcome } = await trimHistory(database);
    return { count: deleted, again: trimAgainMs[outcome] };
  },
  activity: async ({ database, leader, busy }) => {
    const behindMs = await countActivity(database, leader, activityMaxMs);
    if (behindMs > 0) return { count: 0, again: everyMs.activity };
    return { count: 0, again: busy === false ? activityIdleMs : activityEveryMs };
  },
};
