import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { partIn } from './node-slots.ts';
import { createSharedSlots } from './shared-slots.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const nothing = (): void => {};

test('a worker whose claim is not answered keeps neither slots nor its turn', async () => {
  const shared = createSharedSlots(2);
  const [stuck, other] = [partIn(shared, nothing), partIn(shared, nothing)];
  let answer = nothing;
  const claims = stuck.claims(
    () => new Promise((resolve) => (answer = () => resolve({ rows: [], full: false, claimedAt: 0 }))),
  );
  expect(stuck.take(1)).toBe(1); // a job runs there
  const claim = claims({ max: 1, ahead: 0, from: 0, whole: true });
  expect(other.room(2)).toBe(0);
  stuck.starved(true);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(other.room(2)).toBe(1);
  stuck.ended(false); // the job ends, and more is known to be ready
  stuck.starved(true);
  expect(other.room(2)).toBe(2);
  answer();
  await claim;
  stuck.starved(true);
  expect(other.room(2)).toBe(1);
});
