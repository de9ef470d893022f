import { expect, test } from 'vitest';
import { createRecord } from './record.ts';

test('what is tried again is no fault, and is known where a drain comes to no end', () => {
  const { fault, observe, trouble } = createRecord();
  observe({ type: 'database.error', during: 'start', error: new Error('no route') });
  expect(trouble()?.message).toBe('the database failed: no route');
  const error = new Error('billing is away');
  observe({ type: 'policy.prepare_failed', policy: 'shop', part: 'credit', error, retryMs: 1_000 });
  observe({ type: 'node.ended', node: 'n', reason: 'reset', jobs: [] } as never);
  expect(trouble()).toMatchObject({
    message: 'the policy waits for what credit prepares, which failed: billing is away',
    cause: error,
  });
  expect(fault()).toBeUndefined();
});
