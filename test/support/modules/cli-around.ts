// The tasks of cli-tasks.ts within middleware, for `pgqueue worker --tasks`.
import type { Around } from '@pgqueue/worker';

export * from './cli-tasks.ts';

export const around: Around = async (job, next) => {
  if (job.key === 'refused') throw new Error('refused by the middleware');
  return next();
};
