import { readFileSync } from 'node:fs';
import { PgQueueError } from '@pgqueue/core';
import type { QueueSeen } from '@pgqueue/core';
import type { Arrival, NodeOptions, SwfOptions, SwfWorkload, WorkloadFile } from '@pgqueue/lab';
import { countJobs, parseSwf, parseWorkload, toArrival } from '@pgqueue/lab';
import type { Operator, RecordedOptions } from '@pgqueue/postgres';
import { plural } from '../output/format.ts';
import { isSwf } from './swf-file.ts';
import { whyUnread } from './unread.ts';

/** Workload to simulate, and the conditions under which it was recorded. */
export interface LoadedWorkload {
  readonly arrivals: WorkloadFile['arrivals'];
  /** Number of jobs, those of flows included. */
  readonly jobs: number;
  readonly queues: Readonly<Record<string, Partial<QueueSeen>>>;
  /** Nodes; undefined if unknown. */
  readonly fleet: readonly NodeOptions[] | undefined;
  /** Numbers of jobs that were left out, by reason. Undefined: the format has no such jobs. */
  readonly skipped?: SwfWorkload['skipped'];
  /** Description in one line. */
  readonly says: string;
}

/** Recorded jobs in one simulation, at most; all are held in memory. */
const recordedMax = 2_000_000;

/**
 * Reads a workload from a .swf or .json file.
 * @throws {PgQueueError} `configuration`
 */
export function readWorkload(file: string, key: SwfOptions['key'] = 'user'): LoadedWorkload {
  if (!/\.(?:swf|json)$/i.test(file)) throw wrong(file, 'give a .swf or .json file');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw wrong(file, whyUnread(error), error);
  }
  try {
    return isSwf(file) ? fromSwf(file, text, key) : fromJson(file, text);
  } catch (error) {
    if (error instanceof PgQueueError) throw wrong(file, error.message, error);
    throw error;
  }
}

function fromSwf(file: string, text: string, key: NonNullable<SwfOptions['key']>): LoadedWorkload {
  const { arrivals, skipped } = parseSwf(text, { key });
  const left = [
    ...(skipped.unknownTimes > 0 ? [`${skipped.unknownTimes} with unknown times`] : []),
    ...(skipped.cancelled > 0 ? [`${skipped.cancelled} cancelled before they ran`] : []),
    ...(skipped.parts > 0 ? [`${plural(skipped.parts, 'part')} of jobs`] : []),
  ];
  const without = left.length === 0 ? '' : `, without ${left.join(', ')}`;
  return {
    arrivals,
    jobs: arrivals.length,
    queues: {},
    fleet: undefined,
    skipped,
    says: `${plural(arrivals.length, 'job')} of ${file}${without}`,
  };
}

function fromJson(file: string, text: string): LoadedWorkload {
  const { arrivals, queues = {}, fleet } = parseWorkload(text);
  const jobs = countJobs(arrivals);
  const flows = arrivals.filter((arrival) => 'steps' in arrival).length;
  const inFlows = flows === 0 ? '' : ` and ${plural(flows, 'flow')}`;
  return { arrivals, jobs, queues, fleet, says: `${plural(jobs, 'job')}${inFlows} of ${file}` };
}

function wrong(file: string, why: string, cause?: unknown): PgQueueError {
  return new PgQueueError('configuration', `--workload ${file}: ${why}`, { cause });
}

/**
 * Reads recorded jobs. Queue limits and live nodes are the present ones.
 * @throws {PgQueueError} `configuration`: there are more than 2,000,000 jobs
 */
export async function readHistory(
  operator: Operator,
  range: Pick<RecordedOptions, 'from' | 'to'>,
  onProgress: (jobs: number) => void,
): Promise<LoadedWorkload> {
  const arrivals: Arrival[] = [];
  let after: string | null = null;
  do {
    const page = await operator.recorded({ ...range, ...(after === null ? {} : { after }) });
    for (const job of page.items) arrivals.push(toArrival(job));
    after = page.next;
    onProgress(arrivals.length);
    if (arrivals.length > recordedMax) {
      throw new PgQueueError(
        'configuration',
        `there are more than ${recordedMax} jobs: narrow --from and --to`,
      );
    }
  } while (after !== null);
  const [queues, nodes] = await Promise.all([operator.queues.list(), operator.nodes.list()]);
  const live = nodes.filter(({ state, overdue, slots }) => state === 'alive' && !overdue && slots > 0);
  return {
    arrivals,
    jobs: arrivals.length,
    queues: Object.fromEntries(
      queues.map(({ queue, pool, concurrency, keyConcurrency, rate, keyRate, weight }) => [
        queue,
        { pool, concurrency, keyConcurrency, rate, keyRate, weight },
      ]),
    ),
    fleet: live.length === 0 ? undefined : live.map(({ pool, slots }) => ({ pool, slots })),
    says: `${plural(arrivals.length, 'recorded job')}${saidRange(range)}`,
  };
}

function saidRange({ from, to }: Pick<RecordedOptions, 'from' | 'to'>): string {
  const since = from === undefined ? '' : ` from ${from.toISOString()}`;
  return to === undefined ? since : `${since} to ${to.toISOString()}`;
}
