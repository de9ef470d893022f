import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres/internal';

/**
 * Returns a target that holds the lease of one job, without a database. It answers the statements by which a
 * worker extends a lease, shows progress, keeps a checkpoint, settles and releases, as the database answers
 * the holder of the token. Everything else of the attempt is the worker's own code.
 */
export function memoryLease(job: Pick<ClaimedJob, 'tries' | 'maxTries'>): Target {
  return {
    schema: 'memory',
    query: <Row>(text: string, values: readonly unknown[]) => {
      const asked = /memory\.(\w+)\(/.exec(text)?.[1] ?? text;
      const answer = answers[asked];
      if (answer === undefined) return Promise.reject(needsDatabase(asked));
      return Promise.resolve(answer(values, job) as readonly Row[]);
    },
  };
}

type Answer = (values: readonly unknown[], job: Pick<ClaimedJob, 'tries' | 'maxTries'>) => readonly object[];

const ids = (values: readonly unknown[]): readonly string[] => values[0] as readonly string[];

const answers: Readonly<Record<string, Answer>> = {
  extend: (values) => ids(values).map((id) => ({ job_id: id, cancelled: false })),
  report_progress: (values) => ids(values).map((id) => ({ id })),
  save_checkpoint: () => [{ saved: true }],
  release: (values) => ids(values).map((id) => ({ id })),
  settle: (values, { tries, maxTries }) => {
    // When every settlement is done, arrays are sent as texts; null answers that all were accepted.
    if (typeof values[0] === 'string') return [{ rows: null }];
    const outcomes = values[2] as readonly string[];
    return ids(values).map((id, index) => {
      const outcome = outcomes[index];
      // The database has the last word on limits of tries.
      return { id, verdict: outcome === 'retry' && tries + 1 >= maxTries ? 'dead' : outcome };
    });
  },
};

function needsDatabase(asked: string): PgQueueError {
  return new PgQueueError('configuration', `${asked} needs a database: give runHandler one, { database }`);
}
