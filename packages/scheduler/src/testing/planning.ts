import type {
  Candidate,
  Gate,
  InFlight,
  Lane,
  OpenGate,
  PgQueueEvent,
  Policy,
  QueueSeen,
  Snapshot,
} from '@pgqueue/core';
import { defaultPool, defaultQueue } from '@pgqueue/core/internal';
import type { Planner, PlannerOptions } from '../policy/planner.ts';
import { createPlanner } from '../policy/planner.ts';

/** A job of a key. Its id is the key followed by `seq`, its place among all jobs. */
export function aJob(key: string, seq: number, facts: Partial<Candidate> = {}): Candidate {
  return {
    id: `${key}${seq}`,
    queue: 'default',
    key,
    task: 't',
    version: 1,
    priority: 0,
    seq,
    createdMs: 1_000,
    expiresMs: null,
    attributes: {},
    tries: 0,
    ...facts,
  };
}

export function aLane(key: string, jobs: readonly Candidate[]): Lane {
  const [{ queue } = { queue: 'default' }] = jobs;
  return { queue, key, jobs, more: false, retryDueMs: null, fresh: true };
}

export function anItem(job: Candidate, facts: Partial<InFlight> = {}): InFlight {
  return {
    ...job,
    pool: defaultPool,
    state: 'ready',
    node: null,
    dispatchedMs: 1_000,
    bundle: null,
    ...facts,
  };
}

/** Keys `a` (jobs 1 to 3) and `b` (jobs 4 to 6), and four free slots. */
export function aSnapshot(seen: Partial<Snapshot> = {}): Snapshot {
  return {
    nowMs: 1_000_000,
    lanes: [
      aLane(
        'a',
        [1, 2, 3].map((seq) => aJob('a', seq)),
      ),
      aLane(
        'b',
        [4, 5, 6].map((seq) => aJob('b', seq)),
      ),
    ],
    inFlight: [],
    settled: [],
    queues: {},
    pools: {
      [defaultPool]: { groups: [{ tasks: { t: { min: 1, max: 1 } }, slots: 4, depth: 4 }], ready: [] },
    },
    health: null,
    prepared: {},
    batchMax: 100,
    ...seen,
  };
}

/** Returns {@link aSnapshot} with the given limits on its queue. */
export function limited(limits: Partial<QueueSeen>): Snapshot {
  return aSnapshot({ queues: { default: { ...defaultQueue, ...limits } } });
}

/** Jobs of {@link aSnapshot} that FIFO per key dispatches. */
export const inTurns: readonly string[] = ['a1', 'b4', 'a2', 'b5'];

/** A policy written as a whole that dispatches nothing, with the given members replaced. */
export function aWhole(own: Partial<Policy> & { readonly plan?: Policy['plan'] }): Policy {
  return { name: 'whole', initial: {}, plan: (_, state) => ({ dispatch: [], held: {}, state }), ...own };
}

/** A gate with the given `admits`, and further members replaced. */
export function aGate(name: string, admits: OpenGate['admits'], own: Partial<Gate> = {}): Gate {
  return {
    name,
    open: () => ({ admits, why: () => ({ message: `held by ${name}`, untilMs: null }) }),
    ...own,
  };
}

export interface Planned {
  readonly planner: Planner;
  readonly events: readonly PgQueueEvent[];
  /** Plans and writes the plan. Returns the ids of its jobs. */
  readonly dispatched: (snapshot?: Snapshot) => readonly string[];
  /** Advances the planner's clock. */
  readonly pass: (ms: number) => void;
}

/**
 * Time limits in milliseconds. `patientMs`: for policies that return, which may take a while on a busy
 * machine. `hastyMs`: for policies that never return; it also limits the code that runs with them.
 */
export const patientMs = 5_000;
export const hastyMs = 400;

/** A planner with a clock that moves only by `pass`, so that slow code is never late. */
export function plannerOf(policy: Policy, options: Partial<PlannerOptions> = {}): Planned {
  const events: PgQueueEvent[] = [];
  let leaptMs = 0;
  const planner = createPlanner({
    policy,
    budgetMs: patientMs,
    observe: (event) => events.push(event),
    clock: () => leaptMs,
    ...options,
  });
  planner.restore({});
  return {
    planner,
    events,
    dispatched: (snapshot = aSnapshot()) => {
      const ids = planner.plan(snapshot).dispatch.map(({ id }) => id);
      planner.written({ atMs: snapshot.nowMs, ids: new Set(ids) });
      return ids;
    },
    pass: (ms) => {
      leaptMs += ms;
    },
  };
}
