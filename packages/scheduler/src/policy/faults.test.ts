import type { PgQueueEvent } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { createFaults } from './faults.ts';

test("what fails before the first snapshot is dated by the database's clock, as what fails later is", () => {
  let monotonicMs = 26;
  const faults = createFaults(
    () => {},
    () => monotonicMs,
  );
  const fail = (part: string): void => faults.report({ policy: 'p', part, error: new Error('no prices') });
  fail('early');
  monotonicMs = 126;
  const databaseMs = 1_800_000_000_000;
  faults.now(databaseMs);
  monotonicMs = 136;
  fail('early');
  fail('late');
  expect(faults.current().map(({ part, firstMs, atMs }) => [part, firstMs, atMs])).toEqual([
    ['early', databaseMs - 100, databaseMs + 10],
    ['late', databaseMs + 10, databaseMs + 10],
  ]);
});

test('a fault names the cause of its error: what fetch throws says nothing itself', () => {
  const events: PgQueueEvent[] = [];
  const faults = createFaults(
    (event) => events.push(event),
    () => 0,
  );
  const error = new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:9') });
  faults.report({ policy: 'slack', part: 'region', error, retryMs: 100 });
  expect(faults.current()).toMatchObject([{ message: 'fetch failed: connect ECONNREFUSED 127.0.0.1:9' }]);
  expect(events).toMatchObject([{ type: 'policy.prepare_failed', error }]);
});
