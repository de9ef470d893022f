import { concurrency } from '../policy/gates/concurrency.ts';
import { rate } from '../policy/gates/rate.ts';
import type { Candidate, InFlight, JobFacts, Rate } from '../policy/snapshot.ts';
import { defaultQueue, laneName } from '../policy/snapshot.ts';
import type { Change } from './bugs.ts';
import { anItem } from './snapshots.ts';
import type { Tick, WorldOptions } from './world.ts';

/**
 * A limit as a checker sees it: `of` returns the value under which a job counts, `cost` the amount that it
 * takes.
 */
export interface Checked {
  readonly name: string;
  readonly of: (job: JobFacts) => string | null;
  readonly cost: (job: JobFacts) => number;
}
export interface CheckedLimit extends Checked {
  readonly limit: number;
}
export interface CheckedRate extends Checked, Rate {}

export const region = ({ attributes }: JobFacts): string | null => attributes['region'] as string | null;
export const cost = ({ attributes }: JobFacts): number => Number(attributes['cost']);
export const one = (): number => 1;
const inMail = (of: (job: JobFacts) => string) => (job: JobFacts) => (job.queue === 'mail' ? of(job) : null);

const mail = {
  ...defaultQueue,
  concurrency: 5,
  keyConcurrency: 3,
  rate: { perSecond: 12, burst: 3 },
  keyRate: { perSecond: 6, burst: 2 },
};

export const limits: readonly CheckedLimit[] = [
  { name: 'region', of: region, cost: one, limit: 3 },
  { name: 'memory', of: ({ task }) => task, cost, limit: 7 },
  { name: 'calls', of: ({ task }) => task, cost: one, limit: 4 },
  { name: 'queue', of: inMail(() => 'mail'), cost: one, limit: mail.concurrency },
  { name: 'key', of: inMail(laneName), cost: one, limit: mail.keyConcurrency },
];

export const rates: readonly CheckedRate[] = [
  { name: 'api', of: region, cost, perSecond: 20, burst: 6 },
  { name: 'queue', of: inMail(() => 'mail'), cost: one, ...mail.rate },
  { name: 'key', of: inMail(laneName), cost: one, ...mail.keyRate },
];

/**
 * Options of a world with all limits at once, over two queues. `change`: puts bugs into its gates. The limits
 * of queue_config are always right.
 */
export function options(change: Change, more: Partial<WorldOptions> = {}): WorldOptions {
  const gates = [
    concurrency({ name: 'region', by: region, limit: 3 }),
    concurrency({
      name: 'resources',
      by: ({ task }) => task,
      limit: { memory: 7, calls: 4 },
      cost: (job) => ({ memory: cost(job), calls: 1 }),
    }),
    rate({ name: 'api', by: region, perSecond: 20, burst: 6, cost }),
  ];
  return { gates: gates.map(change), queues: { mail }, ...more };
}

export const coalesce = [{ when: () => true, max: 3, ageMs: 0 }];

/**
 * Returns the amount in flight by value. Jobs of one handler call count once for each value, with the
 * greatest cost.
 */
export function mostOf(
  { of, cost: costOf }: Checked,
  inFlight: readonly InFlight[],
): ReadonlyMap<string, number> {
  const calls = new Map<string, { value: string; cost: number }>();
  for (const item of inFlight) {
    const value = of(item);
    if (value === null || value === undefined) continue;
    const call = JSON.stringify([value, item.bundle ?? item.id]);
    calls.set(call, { value, cost: Math.max(costOf(item), calls.get(call)?.cost ?? 0) });
  }
  const sums = new Map<string, number>();
  for (const call of calls.values()) sums.set(call.value, (sums.get(call.value) ?? 0) + call.cost);
  return sums;
}

export interface Dispatch {
  readonly job: JobFacts;
  readonly atMs: number;
}

/** Returns the largest excess of the dispatches of some window over a rate. 0 or less: none exceeds it. */
export function excess(
  { of, cost: costOf, perSecond, burst }: CheckedRate,
  dispatches: readonly Dispatch[],
): number {
  let worst = -Infinity;
  for (const mine of Map.groupBy(dispatches, ({ job }) => of(job) ?? null).entries()) {
    if (mine[0] === null) continue;
    for (const [index, { atMs: fromMs }] of mine[1].entries()) {
      let spent = 0;
      for (const { job, atMs } of mine[1].slice(index)) {
        spent += costOf(job);
        worst = Math.max(worst, spent - burst - (perSecond * (atMs - fromMs)) / 1_000);
      }
    }
  }
  return worst;
}

export function dispatchesOf(ticks: readonly Tick[]): readonly Dispatch[] {
  return ticks.flatMap(({ written, atMs }) => written.map((job) => ({ job, atMs })));
}

/**
 * Returns the ids of jobs that wait although nothing forbids them: neither the jobs in flight and planned,
 * nor the dispatches of any window up to this tick.
 */
export function wronglyHeld({ snapshot, plan }: Tick, history: readonly Dispatch[]): readonly string[] {
  const { nowMs, inFlight, lanes } = snapshot;
  const gone = new Set(plan.dispatch.map(({ id }) => id));
  const jobs = lanes.flatMap((lane) => lane.jobs);
  const planned = jobs
    .filter(({ id }) => gone.has(id))
    .map((job) => ({ ...anItem(job), id: `planned ${job.id}` }));
  const used = limits.map((checked) => mostOf(checked, [...inFlight, ...planned]));
  const spent = [...history, ...planned.map((job): Dispatch => ({ job, atMs: nowMs }))];
  const forbidden = (job: Candidate): boolean =>
    limits.some((checked, index) => {
      const value = checked.of(job);
      if (value === null || value === undefined) return false;
      return checked.cost(job) > 0 && (used[index]?.get(value) ?? 0) + checked.cost(job) > checked.limit;
    }) ||
    rates.some((checked) => {
      const value = checked.of(job);
      if (value === null || value === undefined || checked.cost(job) === 0) return false;
      const mine = spent.filter((dispatch) => checked.of(dispatch.job) === value);
      return excess(checked, [...mine, { job, atMs: nowMs }]) > -1e-9;
    });
  return jobs.filter((job) => !gone.has(job.id) && !forbidden(job)).map(({ id }) => id);
}
