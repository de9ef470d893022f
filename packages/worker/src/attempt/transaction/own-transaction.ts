import type { Settle } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { unreachable } from '@pgqueue/core/internal';
import type { Executor } from '@pgqueue/postgres';
import { toExecutor } from '@pgqueue/postgres/internal';
import { Alarm } from '../../lease/alarm.ts';
import type { Ran } from './transaction.ts';

/** State of the settlement within a transaction of the handler's own library. */
type SettleProgress =
  | { readonly kind: 'none'; readonly why: unknown }
  | { readonly kind: 'begun' }
  | { readonly kind: 'sealed' };

const notCalled = 'ctx.settleIn: settle was not called: the job is not settled, whatever was written';
const tooLate = 'ctx.settleIn: the transaction had not ended when the lease did';
const notAwaited = 'ctx.settleIn: settle was not waited for, and the job is not settled';

/**
 * Lets a handler run a transaction by a library of its own, and settle in it by `seal`. The library's report
 * of the COMMIT is not trusted: a wrapper may have swallowed a rollback, or the reply may have been lost.
 * Once `settle` was called, the library is not awaited beyond the end of the lease: promises of some
 * libraries never settle when their connection breaks.
 * @param leftMs milliseconds until the lease ends
 */
export async function runOwn(
  run: (settle: Settle) => Promise<unknown>,
  {
    seal,
    leftMs,
  }: {
    readonly seal: (executor: Executor, result: unknown) => Promise<void>;
    readonly leftMs: () => number;
  },
): Promise<Ran<undefined>> {
  const late = Promise.withResolvers<never>();
  const alarm = new Alarm(() => late.reject(new Error(tooLate)));
  const own = {
    ended: false,
    progress: { kind: 'none', why: new PgQueueError('configuration', notCalled) } as SettleProgress,
  };

  const sealed = async (executor: Executor, result: unknown): Promise<void> => {
    if (own.ended) throw new Error('ctx.settleIn has ended: its settle can no longer be called');
    own.progress = { kind: 'begun' };
    alarm.set(leftMs());
    try {
      await seal(executor, result);
      own.progress = { kind: 'sealed' };
    } catch (error) {
      own.progress = { kind: 'none', why: error };
      throw error;
    }
  };
  // A library that retries after a serialization failure calls this again.
  const settle: Settle = (transaction, result) => {
    const settling = sealed(toExecutor(transaction), result);
    settling.catch(() => {}); // if nobody awaits it, its failure must not end the process
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
