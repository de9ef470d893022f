import { other } from './bounded.ts';
import type { GaugeName, Labels } from './instruments.ts';

/** The numbers of the database, as `readNumbers` of `@pgqueue/postgres` gives them. */
export interface Numbers {
  readonly queues: readonly {
    readonly queue: string;
    readonly exact: boolean;
    readonly paused: boolean;
    readonly delayed: number;
    readonly pending: number;
    readonly ready: number;
    readonly running: number;
    readonly dead: number;
    readonly oldestMs: number | null;
    readonly claimAgeMs: number | null;
    readonly failedAttempts: number;
    readonly attempts: number;
  }[];
  readonly keys: readonly {
    readonly queue: string;
    readonly key: string | null;
    readonly pending: number;
    readonly ready: number;
    readonly running: number;
  }[];
  readonly nodes: Readonly<Record<'alive' | 'draining' | 'overdue' | 'lost' | 'slots', number>>;
  readonly leader: { readonly leader: string | null; readonly epoch: number };
  readonly report: {
    readonly ageMs: number;
    readonly stale: boolean;
    readonly held: Readonly<Record<string, Readonly<Record<string, number>>>>;
    /** By pool. */
    readonly wanted?: Readonly<Record<string, number>> | null;
  } | null;
  readonly oldestSnapshotMs: number | null;
}

type Queue = Numbers['queues'][number];

/** One value of a gauge. */
export interface GaugeValue {
  readonly name: GaugeName;
  readonly labels: Labels;
  readonly value: number;
}

/** Most queues, pools and reasons that have a series each; all others share one. */
export const queuesMax = 100;

const states = ['delayed', 'pending', 'ready', 'running', 'dead'] as const;

/** The values of all gauges that are read from the database. */
export function gaugeValues(numbers: Numbers): readonly GaugeValue[] {
  const { queues, named } = divided(numbers.queues);
  const { leader, report, nodes, oldestSnapshotMs } = numbers;
  return [
    ...queues.flatMap(queueValues),
    ...keyValues(numbers.keys, named),
    ...(report === null || report.stale ? [] : heldValues(report.held, named)),
    ...(report === null || report.stale ? [] : wantedValues(report.wanted ?? {})),
    ...(['alive', 'draining', 'overdue', 'lost'] as const).map((state) => ({
      name: 'nodes' as const,
      labels: { state },
      value: nodes[state],
    })),
    plain('slots', nodes.slots),
    plain('leaders', leader.leader === null ? 0 : 1),
    plain('leader_epoch', leader.epoch),
    ...(report === null ? [] : [plain('report_age_seconds', report.ageMs / 1_000)]),
    ...(oldestSnapshotMs === null ? [] : [plain('oldest_snapshot_seconds', oldestSnapshotMs / 1_000)]),
  ];
}

function plain(name: GaugeName, value: number): GaugeValue {
  return { name, labels: {}, value };
}

/** Returns the names that have most: so many are told apart. */
function largest(sizes: readonly (readonly [name: string, size: number])[]): ReadonlySet<string> {
  const sorted = sizes.toSorted(([a, size], [b, than]) => than - size || (a < b ? -1 : 1));
  return new Set(sorted.slice(0, queuesMax).map(([name]) => name));
}

/** Sums the values that have the same labels: those that are not told apart, and one whose name is `other`. */
function summed(values: readonly GaugeValue[]): readonly GaugeValue[] {
  const sums = new Map<string, GaugeValue>();
  for (const one of values) {
    const series = JSON.stringify(one.labels);
    sums.set(series, { ...one, value: (sums.get(series)?.value ?? 0) + one.value });
  }
  return [...sums.values()];
}

/** Those with the most jobs by name; the rest as one. */
function divided(all: readonly Queue[]): {
  readonly queues: readonly Queue[];
  readonly named: ReadonlySet<string>;
} {
  const jobs = (queue: Queue): number => states.reduce((sum, state) => sum + queue[state], 0);
  const named = largest(all.map((queue) => [queue.queue, jobs(queue)]));
  const isNamed = ({ queue }: Queue): boolean => named.has(queue) && queue !== other;
  const queues = all.filter(isNamed);
  const rest = all.filter((queue) => !isNamed(queue));
  const [first] = rest;
  if (first === undefined) return { queues, named };
  return { queues: [...queues, rest.reduce(together, { ...first, ...nothing, queue: other })], named };
}

const nothing = {
  exact: true,
  paused: false,
  delayed: 0,
  pending: 0,
  ready: 0,
  running: 0,
  dead: 0,
  oldestMs: null,
  claimAgeMs: null,
  failedAttempts: 0,
  attempts: 0,
} as const;

function together(a: Queue, b: Queue): Queue {
  const older = (one: number | null, two: number | null): number | null =>
    one === null ? two : Math.max(one, two ?? 0);
  return {
    queue: a.queue,
    exact: a.exact && b.exact,
    paused: a.paused || b.paused,
    delayed: a.delayed + b.delayed,
    pending: a.pending + b.pending,
    ready: a.ready + b.ready,
    running: a.running + b.running,
    dead: a.dead + b.dead,
    oldestMs: older(a.oldestMs, b.oldestMs),
    claimAgeMs: older(a.claimAgeMs, b.claimAgeMs),
    failedAttempts: a.failedAttempts + b.failedAttempts,
    attempts: a.attempts + b.attempts,
  };
}

function queueValues(numbers: Queue): readonly GaugeValue[] {
  const { queue, oldestMs, claimAgeMs, attempts, failedAttempts } = numbers;
  const labels = { queue };
  return [
    ...states.map((state) => ({
      name: 'queue_jobs' as const,
      labels: { queue, state },
      value: numbers[state],
    })),
    { name: 'queue_exact', labels, value: numbers.exact ? 1 : 0 },
    { name: 'queue_paused', labels, value: numbers.paused ? 1 : 0 },
    // none waits: that is an age of 0, so that an alarm ends
    { name: 'queue_oldest_seconds', labels, value: (oldestMs ?? 0) / 1_000 },
    { name: 'queue_claim_age_seconds', labels, value: (claimAgeMs ?? 0) / 1_000 },
    ...(attempts === 0
      ? []
      : [{ name: 'queue_retry_ratio' as const, labels, value: failedAttempts / attempts }]),
  ];
}

function keyValues(keys: Numbers['keys'], named: ReadonlySet<string>): readonly GaugeValue[] {
  return summed(
    keys.flatMap(({ queue, key, ...jobs }) =>
      (['pending', 'ready', 'running'] as const).map((state) => ({
        name: 'key_jobs' as const,
        labels: { queue: named.has(queue) ? queue : other, key: key ?? other, state },
        value: jobs[state],
      })),
    ),
  );
}

function heldValues(
  held: Readonly<Record<string, Readonly<Record<string, number>>>>,
  named: ReadonlySet<string>,
): readonly GaugeValue[] {
  const all = Object.entries(held).flatMap(([queue, reasons]) =>
    Object.entries(reasons).map(([reason, jobs]) => ({ queue, reason, jobs })),
  );
  const sizes = new Map<string, number>();
  for (const { reason, jobs } of all) sizes.set(reason, (sizes.get(reason) ?? 0) + jobs);
  const reasons = largest([...sizes]);
  return summed(
    all.map(({ queue, reason, jobs }) => ({
      name: 'held_jobs',
      labels: { queue: named.has(queue) ? queue : other, reason: reasons.has(reason) ? reason : other },
      value: jobs,
    })),
  );
}

function wantedValues(wanted: Readonly<Record<string, number>>): readonly GaugeValue[] {
  const pools = largest(Object.entries(wanted));
  return summed(
    Object.entries(wanted).map(([pool, value]) => ({
      name: 'wanted_slots',
      labels: { pool: pools.has(pool) ? pool : other },
      value,
    })),
  );
}
