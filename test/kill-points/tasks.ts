import { defineTask, implement, snooze } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { z } from 'zod';

const payload = z.object({});
const retry = { backoff: 'fixed', base: 1, jitter: 0 } as const;

export const plain = defineTask({ name: 'plain', payload });
/** Writes its effect through ctx.transaction. */
export const effect = defineTask({ name: 'effect', payload, retry });
/** Fails at its first try. */
const fails = defineTask({ name: 'fails', payload, retry });
/** Extends its lease, shows progress, leaves a checkpoint. */
const long = defineTask({ name: 'long', payload });
/** Snoozes once on the node that is to die. */
const sleeps = defineTask({ name: 'sleeps', payload });
/** Runs on until it is told to end, on the node that is to die. */
const lingers = defineTask({ name: 'lingers', payload });

/** @param doomed on the node that is to die */
export function handlers(doomed: boolean): readonly TaskHandler[] {
  const slept = new Set<string>();
  return [
    implement(plain, () => 'done'),
    implement(effect, (_payload, { job, transaction }) =>
      transaction((client) => client.query('insert into effect (job) values ($1)', [job.id])),
    ),
    implement(fails, (_payload, { job }) => {
      if (job.tries === 0) throw new Error('as it should');
    }),
    implement(long, async (_payload, { extend, progress, checkpoint }) => {
      await extend('2h');
      await progress({ half: true });
      await checkpoint({ at: 1 });
    }),
    implement(sleeps, (_payload, { job }) => {
      if (!doomed || slept.has(job.id)) return 'awake';
      slept.add(job.id);
      return snooze(1);
    }),
    implement(lingers, (_payload, { signal }) =>
      doomed
        ? new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
        : undefined,
    ),
  ];
}
