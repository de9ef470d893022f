// Tasks for `pgqueue worker --tasks`: what the tests of the command line enqueue.
import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import { z } from 'zod';

const anything = z.looseObject({});

export const hello = implement(defineTask({ name: 'hello', payload: anything }), (payload, { job }) => ({
  hello: payload,
  from: job.task,
}));

/** Takes its time, whatever it is told. */
export const linger = implement(
  defineTask({ name: 'linger', payload: z.object({ ms: z.number() }) }),
  async ({ ms }) => {
    await delay(ms);
    return 'stayed';
  },
);

/** Never ends by itself. */
export const stuck = implement(defineTask({ name: 'stuck', payload: anything }), () => new Promise(() => {}));

export const notATask = { kind: 'something else' };
