import type { ClaimedJob } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres';

/**
 * The lease of one job, without a database: answers the statements with which a worker extends, shows, keeps, settles and gives back, as
 * the database answers whoever holds the token. Everything else of the attempt is the worker's own code.
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
    // where everything is done, arrays are sent as texts, and null says that all of it was accepted
    if (typeof values[0] === 'string') return [{ rows: null }];
    const outcomes = values[2] as readonly string[];
    return ids(values).map((id, index) => {
      const outcome = outcomes[index];
      // the last word on limits of tries is the database's
      return { id, verdict: outcome === 'retry' && tries + 1 >= maxTries ? 'dead' : outcome };
    });
  },
};

function needsDatabase(asked: string): PgQueueError {
  return new PgQueueError('configuration', `${asked} needs a database: give runHandler one, { database }`);
}
