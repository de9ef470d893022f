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
import { defaultPool, defaultQueue } from '@pgqueue/core';
import type { Planner, PlannerOptions } from '../policy/planner.ts';
import { createPlanner } from '../policy/planner.ts';

/** A job of a key: its id says which, its place in the key, and in all. */
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

/** Keys `a` and `b` with three jobs each, enqueued in turns of all of `a` and all of `b`; four free slots. */
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

/** What {@link aSnapshot} has with these limits. */
export function limited(limits: Partial<QueueSeen>): Snapshot {
  return aSnapshot({ queues: { default: { ...defaultQueue, ...limits } } });
}

/** Of {@link aSnapshot}: FIFO per key. */
export const inTurns: readonly string[] = ['a1', 'b4', 'a2', 'b5'];

/** A policy written as a whole that holds everything, but for what is given. */
export function aWhole(own: Partial<Policy> & { readonly plan?: Policy['plan'] }): Policy {
  return { name: 'whole', initial: {}, plan: (_, state) => ({ dispatch: [], held: {}, state }), ...own };
}

/** A gate that answers by what it is given. */
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
  /** Of the next plan, which is written then. */
  readonly dispatched: (snapshot?: Snapshot) => readonly string[];
  /** Moves the planner's clock. */
  readonly pass: (ms: number) => void;
}

/** For policies that come back: on a busy machine that may take some time. And for those that never do: what else they run with has it, too. */
export const patientMs = 5_000;
export const hastyMs = 400;

/** A planner with a clock that moves by leaps only: whatever is slow, nothing is late. */
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
