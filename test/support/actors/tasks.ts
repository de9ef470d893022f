import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** Starts and waits, on nodes that hold; done at once on others. An hour of timeout, so that only its node's death ends it. */
export const hold = defineTask({ name: 'hold', payload: z.object({ n: z.int() }), timeout: '1h' });

export const quick = defineTask({
  name: 'quick',
  payload: z.object({ n: z.int(), tenant: z.string() }),
  key: ({ tenant }) => tenant,
});

/** Keeps the event loop of its node, longer than its timeout. */
export const spin = defineTask({ name: 'spin', payload: z.object({}), timeout: '1s' });

/** Lets promises go, in the way that it is told. */
export const float = defineTask({ name: 'float', payload: z.object({ how: z.string() }) });

/** Ends the process that runs it. */
export const poison = defineTask({ name: 'poison', payload: z.object({}), timeout: '1h' });

/** What runs beside it. */
export const harmless = defineTask({ name: 'harmless', payload: z.object({ ms: z.int() }), timeout: '1h' });
