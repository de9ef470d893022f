import { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import type { WorkerOptions } from '@pgqueue/worker';
import { checkStop, createSharedSlots, createSharingWorker } from '@pgqueue/worker/internal';
import type { Member } from '../installations/member.ts';
import { aborted, startIn } from '../installations/start.ts';

/** Options of `router.worker`: those of a worker, but for its database. */
export type RouterWorkerOptions = Omit<WorkerOptions, 'connectionString' | 'schema' | 'health'>;

/**
 * Worker of all installations in one process. `concurrency` handlers run at a time, whatever installations their jobs are
 * of: a slot goes to where work is ready, and in turn while there is work in several.
 */
export interface RouterWorker {
  /** Node id by the name of each installation. */
  readonly nodes: Readonly<Record<string, string>>;
  /** Slots in use. */
  readonly running: number;
  /**
   * Starts to work. Resolves when all installations are reached, or one is and five seconds have passed: the others are
   * tried again until `stop`.
   * @throws {PgQueueError} `configuration`, `schema_version`, `node_id_in_use`; then it has stopped
   */
  start(): Promise<void>;
  /**
   * Stops all of it at once, as a worker stops. May be called again, and at any time.
   * @throws {PgQueueError} `configuration`: `drainMs` is not valid; nothing is stopped
   */
  stop(options?: { readonly drainMs?: number }): Promise<void>;
  /** Gives all running jobs back at once, uncounted, as a worker leaves. */
  leave(): Promise<void>;
  /** Resolves when it was stopped. Rejects when it had to end by itself, as a worker has to. */
  readonly ended: Promise<void>;
}

const startMs = 5_000;

export function createRouterWorker(members: readonly Member[], options: RouterWorkerOptions): RouterWorker {
  const { concurrency = 10 } = options ?? {};
  const slots = createSharedSlots(concurrency);
  const workers = members.map((member) => {
    const { connectionString, schema } = member.installation;
    const own = { ...options, connectionString, ...(schema === undefined ? {} : { schema }) };
    return { member, worker: createSharingWorker(own, slots) };
  });
  const stopping = new AbortController();
  let started: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  /** Why it ended by itself, where none of its workers had begun to work there. */
  let failure: { readonly error: unknown } | undefined;

  const stop: RouterWorker['stop'] = async (given) => {
    checkStop(given);
    stopping.abort();
    await (stopped ??= Promise.all(workers.map(({ worker }) => worker.stop(given))).then(() => {}));
  };
  const begin = async (): Promise<void> => {
    const starts = workers.map(({ member, worker }) =>
      startIn(member, () => worker.start(), { signal: stopping.signal }),
    );
    const all = Promise.all(starts).then(() => {});
    try {
      if (await within(startMs, all)) return await all;
      await Promise.any([...starts, aborted(stopping.signal)]);
    } catch (error) {
      await stop({ drainMs: 0 });
      throw error instanceof AggregateError ? error.errors[0] : error;
    }
    // what fails later ends all of it, and `ended` tells
    all.catch((error: unknown) => {
      failure = { error };
      void stop({ drainMs: 0 });
    });
  };
  const ended = Promise.all(workers.map(({ worker }) => worker.ended)).then(() => {
    if (failure !== undefined) throw failure.error;
  });
  ended.catch(() => void stop());
  return {
    nodes: Object.fromEntries(workers.map(({ member, worker }) => [member.installation.name, worker.node])),
    get running() {
      return workers.reduce((sum, { worker }) => sum + worker.running, 0);
    },
    start: () => {
      if (stopped !== undefined)
        return Promise.reject(
          new PgQueueError('configuration', 'this worker was stopped: create another one'),
        );
      return (started ??= begin());
    },
    stop,
    leave: async () => {
      stopping.abort();
      await Promise.all(workers.map(({ worker }) => worker.leave()));
    },
    ended,
  };
}
