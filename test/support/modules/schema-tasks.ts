// Tasks for `pgqueue tasks`: schemas of several libraries, some of which have no JSON Schema.
import { defineTask, implement } from '@pgqueue/core';
import { type } from 'arktype';
import * as v from 'valibot';
import { z } from 'zod';

export const resize = defineTask({
  name: 'resize',
  version: 2,
  timeout: '2m',
  upcasters: { 1: (old) => old },
  payload: z.object({ file: z.string(), width: z.int().min(1).default(64) }),
  result: z.object({ file: z.string() }),
});

export const handlers = [
  implement(resize, ({ file }) => ({ file })),
  implement(defineTask({ name: 'mail', payload: type({ to: 'string' }) }), () => null),
];

export const others = [
  defineTask({ name: 'plain', payload: v.object({ n: v.number() }) }),
  defineTask({ name: 'dated', payload: z.object({ at: z.date() }), result: z.number() }),
];
