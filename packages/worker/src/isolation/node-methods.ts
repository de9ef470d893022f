import type { JobContext, JobLogger, Settle, TransactionClient } from '@pgqueue/core';
import { portOf } from '../flow/node-port.ts';
import type { SentResult } from '../lease/json.ts';
import { receivedResult } from '../lease/json.ts';
import { logData } from './log-data.ts';
import type { Methods, Peer } from './peer.ts';

/** Methods that a child process may call: members of the attempt's context and of its port, by name. */
export function nodeMethods(context: JobContext, peer: () => Peer): Methods {
  const transactions = new Map<number, TransactionClient>();
  const settles = new Map<number, Settle>();
  const { needs: _needs, ...calls } = portOf(context);

  return {
    ...calls,
    extend: context.extend,
    progress: context.progress,
    checkpoint: context.checkpoint,
    log: (level: keyof JobLogger, text: string, message?: string) => {
      if (Object.hasOwn(levels, level)) context.log[level](logData(text), message);
    },
    transaction: async (key: number) => {
      await context.transaction(async (client) => {
        transactions.set(key, client);
        try {
          return receivedResult((await peer().call('work', key)) as SentResult);
        } finally {
          transactions.delete(key);
        }
      });
    },
    query: async (key: number, text: string, values: unknown[]) => {
      const client = transactions.get(key);
      if (client === undefined)
        throw new Error('this transaction has ended: its client can no longer be used');
      const { rows, rowCount } = await client.query(text, values);
      return { rows: rows.map((row: object) => ({ ...row })), rowCount };
    },
    settleIn: async (key: number) => {
      try {
        await context.settleIn(async (settle) => {
          settles.set(key, settle);
          await peer().call('work', key);
        });
      } finally {
        settles.delete(key);
      }
    },
    settle: async (key: number, result: SentResult) => {
      const transaction = {
        query: (text: string, values: unknown[]) => peer().call('ask', key, text, values),
      };
      await settles.get(key)?.(transaction, receivedResult(result));
    },
  };
}

const levels: Readonly<Record<keyof JobLogger, true>> = { debug: true, info: true, warn: true, error: true };
