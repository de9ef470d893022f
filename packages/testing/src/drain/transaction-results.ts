import type { JobContext, Settle, Task } from '@pgqueue/core';

/**
 * Returns a context that tells `keep` the result with which a transaction of its handler settles the job, before it
 * does: the value of its work, if the task has a schema for results, or what its `settle` is given.
 */
export function noteTransactions(
  context: JobContext,
  task: Pick<Task, 'checkResult'>,
  keep: (result: unknown) => void,
): JobContext {
  const noting: Pick<JobContext, 'transaction' | 'settleIn'> = {
    transaction: async (work) =>
      context.transaction(async (client) => {
        const value = await work(client);
        keep(task.checkResult === undefined ? undefined : value);
        return value;
      }),
    settleIn: async (run) =>
      context.settleIn(async (settle) => {
        const noted: Settle = (transaction, result) => {
          keep(result);
          return settle(transaction, result);
        };
        return run(noted);
      }),
  };
  return new Proxy(context, {
    get: (target, name) => Reflect.get(name in noting ? noting : target, name) as unknown,
  });
}
