import fc from 'fast-check';
import type {
  AttemptEnd,
  Candidate,
  InFlight,
  JobFacts,
  Lane,
  NodeGroup,
  PoolSeen,
  QueueSeen,
  ReadyItems,
  Settlement,
  Snapshot,
} from '../policy/snapshot.ts';
import { compareInKey, defaultPool, defaultQueue, laneName } from '../policy/snapshot.ts';

/**
 * Few names, so that jobs share them; odd ones, so that code that is careless with names or with the order of
 * texts breaks.
 */
export const queueNames: readonly string[] = ['mail', 'video', '__proto__'];
export const keyNames: readonly string[] = [
  '',
  'a',
  'b',
  'ä',
  '\u{1F600}',
  '\uFFFD',
  'constructor',
  '__proto__',
];
/** Time of every generated snapshot. Its jobs are up to 100 s old. */
export const nowMs = 1_000_000;

/** Makes a job with ordinary defaults. `id` follows from `seq`. */
export function aJob(facts: Partial<JobFacts> & { readonly seq: number }): Candidate {
  return {
    id: `job${facts.seq}`,
    queue: 'default',
    key: '',
    task: 't',
    version: 1,
    priority: 0,
    createdMs: nowMs,
    expiresMs: null,
    attributes: {},
    tries: 0,
    ...facts,
  };
}

/** Makes a job with a work item: ready, alone. */
export function anItem(facts: Partial<InFlight> & { readonly seq: number }): InFlight {
  return {
    pool: defaultPool,
    state: 'ready',
    node: null,
    dispatchedMs: nowMs,
    bundle: null,
    ...aJob(facts),
    ...facts,
  };
}

/** Makes a pool with one group of nodes that runs every given task, in any version. */
export function aPool(depth: number, tasks: readonly string[] = ['t', 'u']): PoolSeen {
  const range = { min: 1, max: 1_000_000 };
  const ranges = Object.fromEntries(tasks.map((task) => [task, range]));
  return { groups: [{ tasks: ranges, slots: depth, depth }], ready: [] };
}

/** Makes an empty snapshot with the given parts, and one pool with ten free slots. */
export function aSnapshot(seen: Partial<Snapshot> = {}): Snapshot {
  return {
    nowMs,
    lanes: [],
    inFlight: [],
    settled: [],
    queues: {},
    pools: { [defaultPool]: aPool(10) },
    health: null,
    prepared: {},
    batchMax: 1_000,
    ...seen,
  };
}

/** Returns the lanes of waiting jobs. Each shows its first `window` jobs. */
export function lanesOf(jobs: readonly Candidate[], window = Infinity): readonly Lane[] {
  return [...Map.groupBy(jobs, laneName).values()].map((lane): Lane => {
    const [{ queue, key }] = lane as [Candidate, ...Candidate[]];
    const sorted = lane.toSorted(compareInKey);
    return {
      queue,
      key,
      jobs: sorted.slice(0, window),
      more: sorted.length > window,
      retryDueMs: null,
      fresh: true,
    };
  });
}

const range = fc.constantFrom({ min: 1, max: 3 }, { min: 1, max: 1 }, { min: 2, max: 3 });

const groupArb: fc.Arbitrary<NodeGroup> = fc.record({
  tasks: fc.dictionary(fc.constantFrom('t', 'u'), range),
  slots: fc.integer({ min: 0, max: 5 }),
  depth: fc.integer({ min: 0, max: 16 }),
});

interface Drawn {
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  readonly version: number;
  readonly priority: number;
  readonly ageMs: number;
  readonly leftMs: number | null;
  readonly tries: number;
  readonly region: string | null;
  readonly cost: number;
}

const factsArb = fc.record<Drawn>({
  queue: fc.constantFrom(...queueNames),
  key: fc.constantFrom(...keyNames),
  task: fc.constantFrom('t', 't', 't', 'u', 'u', 'nobody'),
  version: fc.integer({ min: 1, max: 3 }),
  priority: fc.integer({ min: -2, max: 2 }),
  ageMs: fc.constantFrom(0, 1, 999, 1_000, 5_000, 99_999),
  leftMs: fc.constantFrom(null, null, 1, 60_000),
  tries: fc.integer({ min: 0, max: 3 }),
  region: fc.constantFrom('eu', 'us', null),
  cost: fc.integer({ min: 1, max: 5 }),
});

/** Makes a job with the attributes `region` (text, or absent) and `cost` (1 to 5). */
function jobFrom({ ageMs, leftMs, region, cost, ...facts }: Drawn, seq: number): Candidate {
  return aJob({
    ...facts,
    seq,
    createdMs: nowMs - ageMs,
    expiresMs: leftMs === null ? null : nowMs + leftMs,
    attributes: region === null ? { cost } : { region, cost },
  });
}

const limitArb = fc.constantFrom(null, null, 0, 1, 2, 5);
const rateArb = fc.constantFrom(null, null, { perSecond: 1, burst: 1 }, { perSecond: 10, burst: 3 });

/** Settings of a queue. At least half of them have no limit. */
export const queueSeen: fc.Arbitrary<QueueSeen> = fc.oneof(
  fc.constantFrom<QueueSeen>(defaultQueue, { ...defaultQueue, pool: 'gpu', weight: 3 }),
  fc.record<QueueSeen>({
    pool: fc.constantFrom(defaultPool, 'gpu', 'nowhere'),
    paused: fc.constantFrom(false, false, true),
    concurrency: limitArb,
    keyConcurrency: limitArb,
    rate: rateArb,
    keyRate: rateArb,
    weight: fc.constantFrom(0.1, 1, 1, 2, 10),
  }),
);

const settlementArb = fc.record({
  facts: factsArb,
  outcome: fc.constantFrom<AttemptEnd>('done', 'retry', 'dead', 'snooze', 'cancelled', 'crash', 'recalled'),
  busyMs: fc.constantFrom(0, 1, 50, 10_000),
});

const seenArb = fc.record({
  waiting: fc.array(factsArb, { maxLength: 40, size: 'max' }),
  items: fc.array(fc.record({ facts: factsArb, running: fc.boolean(), bundled: fc.nat({ max: 2 }) }), {
    maxLength: 12,
  }),
  settled: fc.array(settlementArb, { maxLength: 8 }),
  window: fc.integer({ min: 1, max: 6 }),
  stale: fc.boolean(),
  retryDue: fc.constantFrom(null, null, nowMs + 1, nowMs + 10_000),
  queues: fc.dictionary(fc.constantFrom(...queueNames), queueSeen),
  groups: fc.array(groupArb, { minLength: 1, maxLength: 8, size: 'max' }),
  batchMax: fc.integer({ min: 1, max: 30 }),
});

/**
 * Snapshots of small, crowded, odd systems: up to 40 jobs in 24 lanes, pools whose nodes differ, limits,
 * pauses, bundles in flight, and ended attempts. They are as consistent as real ones: waiting, scheduled and
 * settled jobs are different jobs, and the ready items of pools are those in flight.
 */
export const snapshots: fc.Arbitrary<Snapshot> = seenArb.map((seen): Snapshot => {
  const { waiting, items, settled, window, stale, retryDue, queues, groups, batchMax } = seen;
  const jobs = waiting.map((facts, index) => jobFrom(facts, index));
  const inFlight = items.map(({ facts, running, bundled }, index): InFlight => {
    const job = jobFrom(facts, 1_000 + index);
    const pool = (Object.hasOwn(queues, job.queue) ? queues[job.queue] : undefined)?.pool ?? defaultPool;
    return {
      ...job,
      pool,
      state: running ? 'running' : 'ready',
      node: running ? 'node1' : null,
      dispatchedMs: job.createdMs,
      bundle: bundled === 0 ? JSON.stringify([laneName(job), job.task, job.version, running]) : null,
    };
  });
  const lanes = lanesOf(jobs, window).map((lane, index) => ({
    ...lane,
    fresh: !(stale && index % 3 === 0),
    retryDueMs: index % 2 === 0 ? retryDue : null,
  }));
  return aSnapshot({
    lanes,
    inFlight,
    settled: settled.map(({ facts, outcome, busyMs }, index): Settlement => ({
      job: jobFrom(facts, 2_000 + index),
      outcome,
      busyMs: outcome === 'recalled' ? 0 : busyMs,
      endedMs: nowMs - index,
    })),
    queues,
    pools: {
      [defaultPool]: { groups, ready: readyOf(inFlight, defaultPool) },
      gpu: { groups: groups.slice(0, 2), ready: readyOf(inFlight, 'gpu') },
    },
    batchMax,
  });
});

function readyOf(inFlight: readonly InFlight[], pool: string): readonly ReadyItems[] {
  const bundles = new Set<string>();
  return inFlight.flatMap((item): ReadyItems[] => {
    if (item.state !== 'ready' || item.pool !== pool) return [];
    if (item.bundle !== null && bundles.has(item.bundle)) return [];
    if (item.bundle !== null) bundles.add(item.bundle);
    return [{ task: item.task, version: item.version, count: 1 }];
  });
}

/** Returns the same snapshot with its lanes, work items and settlements in another order. */
export function shuffled(snapshot: Snapshot): fc.Arbitrary<Snapshot> {
  const all = <Item>(items: readonly Item[]): fc.Arbitrary<readonly Item[]> =>
    fc.shuffledSubarray([...items], { minLength: items.length });
  return fc
    .record({ lanes: all(snapshot.lanes), inFlight: all(snapshot.inFlight), settled: all(snapshot.settled) })
    .map((parts) => ({ ...snapshot, ...parts }));
}
