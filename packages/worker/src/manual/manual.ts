/**
 * A worker node without its claim loop, for tests and for tools that pace it themselves. Jobs run and settle
 * by the same code as in {@link createWorker}; only the caller decides when to claim.
 */
import { PgQueueError } from '@pgqueue/core';
import { createClaims } from '../claim/claims.ts';
import { unitsOf } from '../lease/unit.ts';
import type { WorkerOptions } from '../options.ts';
import { noHints } from '../settle/settler.ts';
import { WorkerNode } from '../worker.ts';

export type { LoneAttempt, LoneAttemptOptions } from './run-attempt.ts';
export { runAttempt } from './run-attempt.ts';
export { sleepsUntilMs } from '../durable/memo.ts';

/** A node that claims when it is told to. Made by {@link createWorkerSteps}. */
export interface WorkerSteps {
  readonly node: string;
  /**
   * Registers the node and starts its heartbeat.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  readonly begin: () => Promise<void>;
  /**
   * Claims up to `max` ready jobs, but no more than `concurrency` handlers would take, runs them, and settles
   * them. Resolves to the number of claimed jobs, once their handlers have returned and the database has
   * answered.
   * @throws {PgQueueError} `node_ended`, and the errors of the claim
   */
  readonly run: (max?: number) => Promise<number>;
  /** Aborts running handlers, gives their jobs back, and leaves. May be called again. */
  readonly end: () => Promise<void>;
}

/**
 * Creates a node; opens no connection yet. The node does not LISTEN, and sends heartbeats from the event
 * loop.
 * @throws {PgQueueError} `configuration`
 */
export function createWorkerSteps(options: WorkerOptions): WorkerSteps {
  const stepped = { ...options, listen: false, heartbeatThread: false, blockedMs: 0 };
  const worker = new WorkerNode(stepped, { hints: noHints, graceMs });
  const { settings, membership, executor, settler, floating } = WorkerNode.parts(worker);
  const claims = createClaims({ ...settings, ...membership });
  return {
    node: worker.node,
    begin: async () => {
      if (membership.draining.aborted)
        throw new PgQueueError('configuration', 'this node has ended: make another');
      await membership.start();
      floating.open();
    },
    run: async (max = settings.slots) => {
      const wanted = { max: Math.min(max, settings.slots), ahead: null, from: 0, whole: true };
      const { rows, claimedAt } = await claims(wanted);
      const jobs = rows.flatMap((row) => row.jobs);
      await Promise.all(unitsOf(jobs).map((unit) => executor.run(unit, { claimedAt })));
      await settler.idle();
      return jobs.length;
    },
    end: () => worker.stop({ drainMs: 0 }),
  };
}

/** Short, since it delays the error of a test: handlers that heed their signal end at once. */
const graceMs = 100;
