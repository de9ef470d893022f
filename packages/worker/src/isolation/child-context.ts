import type { AbortReason, JobContext, JobLogger, StatementRunner, TransactionClient } from '@pgqueue/core';
import { storableJson } from '@pgqueue/core/internal';
import type { PageOfEnds } from '@pgqueue/postgres/internal';
import { addedRows } from '../flow/added-jobs.ts';
import { createNeeds } from '../flow/needs.ts';
import type { MemoEntry, NodePort } from '../flow/node-port.ts';
import { createDurable } from '../durable/steps.ts';
import { AbortedError } from '../lease/timing.ts';
import type { SentResult } from '../lease/json.ts';
import { sentResult } from '../lease/json.ts';
import { logText } from './log-data.ts';
import type { Methods, Peer } from './peer.ts';
import { OverError } from './peer.ts';
import type { ChildInput } from './protocol.ts';

/**
 * Context of a handler in a process of its own. Its node carries out each call, under the lease that the node
 * holds. A transaction of `ctx.transaction` uses a connection of the node, which runs the handler's
 * statements. A transaction of `ctx.settleIn` uses the handler's own connection, which runs the node's
 * statements.
 */
export function childContext(
  { job, needs }: Pick<ChildInput, 'job' | 'needs'>,
  peer: () => Peer,
): { readonly context: JobContext; readonly methods: Methods } {
  const controller = new AbortController();
  const calls = createCallbacks(peer);
  const log = (level: keyof JobLogger) => (data: object, message?: string) =>
    peer().tell('log', level, logText(data), message);

  /** Calls a method that answers false when the lease was lost. No lease is left when the attempt is over. */
  const held = async (name: string, value: unknown): Promise<boolean> => {
    try {
      return (await peer().call(name, value)) === true;
    } catch (error) {
      if (error instanceof OverError) return false;
      throw error;
    }
  };

  const adding = { key: job.key, needs: needs.names };
  const port: NodePort = {
    needs,
    needPage: async (need, place) => (await peer().call('needPage', need, place)) as PageOfEnds,
    addJobs: async (rows) => (await peer().call('addJobs', rows)) === true,
    begin: async (name, kind) => (await peer().call('begin', name, kind)) as MemoEntry | undefined,
    keep: async (name, text) => void (await peer().call('keep', name, text)),
    sleep: async (name, ms) => void (await peer().call('sleep', name, ms)),
    wait: async (name, entry, flow) => void (await peer().call('wait', name, entry, flow)),
    waitedPage: async (flow, place, signal) =>
      (await peer().call('waitedPage', flow, place, signal)) as PageOfEnds,
  };

  const context: JobContext = {
    ...createDurable(port, job),
    job,
    needs: createNeeds(port),
    signal: controller.signal,
    log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
    extend: (by) => held('extend', by),
    progress: async (value) => held('progress', plain(value)),
    addJobs: async (jobs) => port.addJobs(await addedRows(jobs, adding, 'ctx.addJobs')),
    checkpoint: async (data) => held('checkpoint', plain(data)),
    transaction: (work) => calls.through('transaction', (key) => work(clientOf(peer, key))),
    settleIn: async (run) => {
      await calls.through('settleIn', (key) =>
        run(async (transaction, result) => {
          calls.own.set(key, transaction);
          await peer().call('settle', key, sentResult(result));
        }),
      );
    },
  };
  const methods = {
    abort: (reason: AbortReason) => controller.abort(new AbortedError(reason)),
    work: calls.work,
    ask: async (key: number, text: string, values: unknown[]) =>
      copied(await calls.own.get(key)?.query(text, values)),
  };
  return { context, methods };
}

function plain(value: unknown): unknown {
  return JSON.parse(storableJson(value));
}

function clientOf(peer: () => Peer, key: number): TransactionClient {
  type Answer = Awaited<ReturnType<TransactionClient['query']>>;
  return {
    query: async (text, values = []) => (await peer().call('query', key, text, values)) as Answer,
  };
}

interface Callbacks {
  /**
   * Calls `name` on the node, which calls `work` back once. An error of `work` is rethrown as it is, not as
   * the copy that crossed the border.
   */
  readonly through: <Result>(
    name: 'transaction' | 'settleIn',
    work: (key: number) => Promise<Result>,
  ) => Promise<Result>;
  /** Returns the value of the work: its node needs it as a result, if the task has a schema for them. */
  readonly work: (key: number) => Promise<SentResult>;
  /** Open transactions of the handler's own libraries, by key. */
  readonly own: Map<number, StatementRunner>;
}

function createCallbacks(peer: () => Peer): Callbacks {
  const works = new Map<number, () => Promise<unknown>>();
  const own = new Map<number, StatementRunner>();
  let last = 0;

  const through: Callbacks['through'] = async (name, work) => {
    const key = (last += 1);
    let done: { readonly value: Awaited<ReturnType<typeof work>> } | undefined;
    let failed: { readonly error: unknown } | undefined;
    works.set(key, async () => {
      try {
        done = { value: await work(key) };
        return done.value;
      } catch (error) {
        failed = { error };
        throw error;
      }
    });
    try {
      await peer().call(name, key);
    } catch (error) {
      throw failed === undefined ? error : failed.error;
    } finally {
      works.delete(key);
      own.delete(key);
    }
    if (done === undefined) throw new Error(`ctx.${name} ended before its work`);
    return done.value;
  };

  return {
    through,
    work: async (key) => sentResult(await works.get(key)?.()),
    own,
  };
}

/** Copies the part of a library's answer that pgqueue reads: the rows. */
function copied(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map((row: object) => ({ ...row }));
  const { rows } = answer as { readonly rows: readonly object[] };
  return { rows: rows.map((row) => ({ ...row })) };
}
