import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres/internal';

/**
 * Returns a target that holds the lease of one job, without a database. It answers the statements by which a
 * worker extends a lease, shows progress, keeps a checkpoint, settles and releases, as the database answers
 * the holder of the token. Everything else of the attempt is the worker's own code.
 */
export function memoryLease(
  job: Pick<ClaimedJob, 'tries' | 'maxTries'>,
  needs: Readonly<Record<string, readonly unknown[]>>,
): Target {
  return {
    schema: 'memory',
    query: <Row>(text: string, values: readonly unknown[]) => {
      const asked = /(?:memory\.|\b(?=clock_))(\w+)\(/.exec(text)?.[1] ?? text;
      const answer = answers[asked];
      if (answer === undefined) return Promise.reject(needsDatabase(asked));
      return Promise.resolve(answer(values, { ...job, needs }) as readonly Row[]);
    },
  };
}

type Answer = (
  values: readonly unknown[],
  job: Pick<ClaimedJob, 'tries' | 'maxTries'> & {
    readonly needs: Readonly<Record<string, readonly unknown[]>>;
  },
) => readonly object[];

const ids = (values: readonly unknown[]): readonly string[] => values[0] as readonly string[];

const answers: Readonly<Record<string, Answer>> = {
  extend: (values) => ids(values).map((id) => ({ job_id: id, cancelled: false })),
  report_progress: (values) => ids(values).map((id) => ({ id })),
  save_checkpoint: () => [{ answer: true }],
  release: (values) => ids(values).map((id) => ({ id })),
  add_jobs: () => [{ answer: true }],
  suspend_job: () => [{ answer: 'suspended' }],
  clock_timestamp: () => [{ ms: Date.now() }],
  fan_out: () => [{ settled: true }],
  needs_of: (_values, { needs }) =>
    Object.entries(needs).map(([name, { length }], step) => {
      return { name, step, outcome: 'done', done: length, failed: 0, other: 0 };
    }),
  need_results: (values, { needs }) => {
    const [step, after, max] = values.slice(2) as unknown as readonly [number, string | null, number];
    const ends = (Object.values(needs)[step] ?? [])
      .map((result, index) => ({ job: idOf(index), outcome: 'done', result: result ?? null }))
      .filter(({ job, result }) => result !== null && (after === null || job > after));
    return [{ ends: JSON.stringify(ends.slice(0, max)), held: true }];
  },
  settle: (values, { tries, maxTries }) => {
    const outcomes = values[2] as readonly string[];
    return ids(values).map((id, index) => {
      const outcome = outcomes[index];
      // The database has the last word on limits of tries.
      return { id, verdict: outcome === 'retry' && tries + 1 >= maxTries ? 'dead' : outcome };
    });
  },
};

/** Returns the id of the job whose result stands at an index. */
function idOf(index: number): string {
  return `00000000-0000-7000-8000-${index.toString(16).padStart(12, '0')}`;
}

function needsDatabase(asked: string): PgQueueError {
  return new PgQueueError('configuration', `${asked} needs a database: give runHandler one, { database }`);
}
