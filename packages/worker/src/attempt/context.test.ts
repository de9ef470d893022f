import type { Task } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { noNeeds } from '../flow/node-port.ts';
import { Attempt } from './attempt.ts';
import { contextOf } from './context.ts';
import type { LeaseParts } from './lease-calls.ts';

const names = [
  'job',
  'needs',
  'log',
  'signal',
  'extend',
  'progress',
  'checkpoint',
  'addJobs',
  'step',
  'sleep',
  'all',
  'waitForSignal',
  'transaction',
  'settleIn',
];

function begin(): { readonly attempt: Attempt; readonly context: ReturnType<typeof contextOf> } {
  const job = {
    id: 'id',
    token: 'secret',
    position: 1,
    task: 'task',
    payload: { n: 1 },
    leaseMs: 5_000,
    tries: 0,
  };
  const claimed = job as unknown as ClaimedJob;
  const attempt = new Attempt(
    claimed,
    { claimedAt: performance.now() },
    { timeout: () => {}, over: () => {} },
  );
  const parts = { logger: undefined } as unknown as LeaseParts;
  return {
    attempt,
    context: contextOf(parts, attempt, {
      task: { name: 'task' } as Task,
      checkpoint: 7,
      needs: noNeeds,
    }),
  };
}

test('a context can be spread and added to, as handlers that are wrapped do', () => {
  const { attempt, context } = begin();
  expect(Object.keys(context)).toEqual(names);
  const wider = { ...context, tenant: 'a' };
  expect(Object.keys(wider)).toEqual([...names, 'tenant']);
  Object.assign(context, { tenant: 'b' });
  expect([Object.keys(context).at(-1), (context as unknown as { tenant: string }).tenant]).toEqual([
    'tenant',
    'b',
  ]);
  attempt.abort('cancelled');
  expect(wider.signal.aborted).toBe(true);
  attempt.finish();
});

test('its parts are made once, and work apart from it', async () => {
  const { attempt, context } = begin();
  const { signal, job, log, extend } = context;
  expect([context.signal, context.job, context.log]).toEqual([signal, job, log]);
  expect(context.job).toBe(job);
  expect(job).toEqual({ id: 'id', task: 'task', leaseMs: 5_000, tries: 0, checkpoint: 7 });
  expect('signal' in context && !('token' in context)).toBe(true);
  attempt.finish();
  await expect(extend('1s')).resolves.toBe(false);
});
