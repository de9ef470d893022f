import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/**
 * Waits on nodes that hold, and ends at once on others. Its timeout is an hour, so that only its node's death
 * ends it.
 */
export const hold = defineTask({ name: 'hold', payload: z.object({ n: z.int() }), timeout: '1h' });

export const quick = defineTask({
  name: 'quick',
  payload: z.object({ n: z.int(), tenant: z.string() }),
  key: ({ tenant }) => tenant,
});

/** Blocks the event loop of its node for longer than its timeout. */
export const spin = defineTask({ name: 'spin', payload: z.object({}), timeout: '1s' });

/** Leaves promises unhandled, in the way that `how` names. */
export const float = defineTask({ name: 'float', payload: z.object({ how: z.string() }) });

/** Ends the process that runs it. */
export const poison = defineTask({ name: 'poison', payload: z.object({}), timeout: '1h' });

/** Runs beside poison, for `ms` milliseconds. */
export const harmless = defineTask({ name: 'harmless', payload: z.object({ ms: z.int() }), timeout: '1h' });
