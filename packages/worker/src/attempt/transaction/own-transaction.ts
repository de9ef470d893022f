import type { Settle } from '@pgqueue/core';
import { PgQueueError, unreachable } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';
import { toExecutor } from '@pgqueue/postgres';
import { createAlarm } from '../../lease/alarm.ts';
import type { Ran } from './transaction.ts';

/** How far the settlement has come within a transaction of the handler's. */
type Progress =
  | { readonly kind: 'none'; readonly why: unknown }
  | { readonly kind: 'begun' }
  | { readonly kind: 'sealed' };

const notCalled = 'ctx.settleIn: settle was not called: the job is not settled, whatever was written';
const tooLate = 'ctx.settleIn: the transaction had not ended when the lease did';
const notAwaited = 'ctx.settleIn: settle was not waited for, and the job is not settled';

/**
 * Lets a handler run a transaction by a library of its own, in which it has `seal` done. What that library says of the COMMIT is not
 * taken for granted: a wrapper may have swallowed that it rolled back, or the reply to it may have been lost. Nor is it waited for beyond
 * the end of the lease: some promises of libraries never settle when their connection breaks.
 * @param leftMs until the lease ends
 */
export async function runOwn(
  run: (settle: Settle) => Promise<unknown>,
  { seal, leftMs }: { readonly seal: (executor: Executor) => Promise<void>; readonly leftMs: () => number },
): Promise<Ran<undefined>> {
  const late = Promise.withResolvers<never>();
  const alarm = createAlarm(() => late.reject(new Error(tooLate)));
  const own = {
    ended: false,
    progress: { kind: 'none', why: new PgQueueError('configuration', notCalled) } as Progress,
  };

  const sealed = async (executor: Executor): Promise<void> => {
    if (own.ended) throw new Error('ctx.settleIn has ended: its settle can no longer be called');
    own.progress = { kind: 'begun' };
    alarm.set(leftMs());
    try {
      await seal(executor);
      own.progress = { kind: 'sealed' };
    } catch (error) {
      own.progress = { kind: 'none', why: error };
      throw error;
    }
  };
  // a library that begins again what met a serialization failure calls it once more
  const settle: Settle = (transaction) => {
    const settling = sealed(toExecutor(transaction));
    settling.catch(() => {}); // where it is not waited for, its failure must not end the process
    return settling;
  };

  try {
    await Promise.race([run(settle), late.promise]);
    own.ended = true;
    switch (own.progress.kind) {
      case 'none':
        return { kind: 'rolled_back', error: own.progress.why };
      case 'begun':
        return { kind: 'unknown', value: undefined, error: new PgQueueError('configuration', notAwaited) };
      case 'sealed':
        return { kind: 'unconfirmed', value: undefined };
      default:
        return unreachable(own.progress);
    }
  } catch (error) {
    own.ended = true;
    return own.progress.kind === 'none'
      ? { kind: 'rolled_back', error }
      : { kind: 'unknown', value: undefined, error };
  } finally {
    alarm.clear();
  }
}
