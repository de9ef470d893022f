import type { TransactionClient } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import { isWrongServer } from '@pgqueue/postgres/internal';

type Client = Parameters<Parameters<Database['transaction']>[0]>[0];

/** Transactions of handlers, on connections that nothing else uses. */
export interface Transactions {
  /**
   * Begins, runs `work`, then `seal`, and commits; rolls back when either throws. `unknown`: the COMMIT
   * failed, and it may have taken effect.
   */
  readonly run: <Result>(
    work: (client: TransactionClient) => Promise<Result>,
    seal: (client: TransactionClient, value: Result) => Promise<void>,
  ) => Promise<Ran<Result>>;
  /** Destroys the connections of handlers that do not end, so that the pool can close. */
  readonly destroy: () => void;
}

export type Ran<Result> =
  | { readonly kind: 'committed'; readonly value: Result }
  /** The handler's library reported a commit, and nothing else confirms it. */
  | { readonly kind: 'unconfirmed'; readonly value: Result }
  | { readonly kind: 'rolled_back'; readonly error: unknown }
  | { readonly kind: 'unknown'; readonly value: Result; readonly error: unknown };

export function createTransactions(pool: Database['pool']): Transactions {
  const open = new Set<Client>();

  const giveBack = (client: Client, broken: boolean): void => {
    if (open.delete(client)) client.release(broken);
  };

  const run: Transactions['run'] = async (work, seal) => {
    const client = await pool.connect();
    open.add(client);
    const facade = guarded(client);
    let broken = false;
    let sealed: { readonly value: Awaited<ReturnType<typeof work>> } | undefined;
    try {
      await client.query('begin');
      const value = await work(facade.client);
      facade.close();
      if (client.getTransactionStatus() === 'I') throw new PgQueueError('configuration', endedItself);
      await seal(client, value);
      sealed = { value };
      await client.query('commit');
      return { kind: 'committed', value };
    } catch (error) {
      facade.close();
      broken = isWrongServer(error); // after a failover the next transaction needs a new connection
      await client.query('rollback').catch(() => {
        broken = true;
      });
      if (sealed === undefined) return { kind: 'rolled_back', error };
      broken = true;
      return { kind: 'unknown', value: sealed.value, error };
    } finally {
      giveBack(client, broken);
    }
  };

  return {
    run,
    destroy: () => {
      for (const client of open) giveBack(client, true);
    },
  };
}

const endedItself =
  'ctx.transaction begins and ends its transaction itself: its work has ended it, and the job is not settled with what was written';
const notYours = 'ctx.transaction begins and ends its transaction itself: leave out ';
/** Statements that begin or end a transaction; savepoints are allowed. */
const control =
  /^(?:\s|--[^\n]*\n|\/\*[^]*?\*\/)*(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!(?:\s+(?:work|transaction))?\s+to\b))\b/i;

/**
 * Wraps the client that a handler gets. A handler that keeps its client must neither write into the next
 * transaction, nor end its own before the job is settled in it.
 */
function guarded(client: Client): { readonly client: TransactionClient; readonly close: () => void } {
  let closed = false;
  return {
    client: {
      query: async (text, values = []) => {
        if (closed) throw new Error('this transaction has ended: its client can no longer be used');
        const [, word] = control.exec(text) ?? [];
        if (word !== undefined) throw new PgQueueError('configuration', notYours + word.toUpperCase());
        return client.query(text, [...values]);
      },
    },
    close: () => {
      closed = true;
    },
  };
}
