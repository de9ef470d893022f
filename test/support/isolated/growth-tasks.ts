import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

export const leaf = defineTask({ name: 'leaf', payload: z.object({ n: z.int() }) });

/** A task that adds jobs to its step. */
export const grow = defineTask({
  name: 'grow',
  payload: z.object({ how: z.string() }),
  result: z.looseObject({}),
  retry: { maxTries: 1 },
  timeout: '1h',
});

export const reader = defineTask({
  name: 'reader',
  payload: z.object({ how: z.string() }),
  needs: { leaves: leaf },
});
