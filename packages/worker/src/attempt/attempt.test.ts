import type { ClaimedJob } from '@pgqueue/core/internal';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Attempt } from './attempt.ts';
import { applyHeartbeat } from '../lease/held-leases.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

const happened: string[] = [];
beforeEach(() => void happened.splice(0));

const never = new Promise<never>(() => {});

function attempt(leaseMs: number, token = 'token'): Attempt {
  const job = { id: 'id', token, task: 'task', leaseMs } as ClaimedJob;
  return new Attempt(
    job,
    { claimedAt: performance.now() },
    {
      timeout: () => happened.push('timeout'),
      over: () => happened.push('over'),
      floated: (_attempt, { error, counted }) => happened.push(`${String(error)}, ${String(counted)}`),
    },
  );
}

describe('an attempt', () => {
  test('times out a tenth before its lease ends, a second at most', () => {
    attempt(300);
    vi.advanceTimersByTime(269);
    expect(happened).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(happened).toEqual(['timeout']);
    attempt(60_000);
    vi.advanceTimersByTime(58_999);
    expect(happened).toEqual(['timeout']);
    vi.advanceTimersByTime(2);
    expect(happened).toEqual(['timeout', 'timeout']);
  });

  test('of a year does not time out at once, as a timer of so long would', () => {
    attempt(365 * 86_400_000);
    vi.advanceTimersByTime(364 * 86_400_000);
    expect(happened).toEqual([]);
    vi.advanceTimersByTime(86_400_000);
    expect(happened).toEqual(['timeout']);
  });

  test('counts an extension from when it was sent', () => {
    const extended = attempt(100);
    const sentAt = performance.now();
    vi.advanceTimersByTime(50);
    extended.extended(sentAt, 1_000);
    vi.advanceTimersByTime(849);
    expect(happened).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(happened).toEqual(['timeout']);
  });

  test('is over once, and does not time out after that', () => {
    const over = attempt(100);
    expect([over.finish(), over.finish(), over.beginCommit()]).toEqual([true, false, false]);
    vi.advanceTimersByTime(1_000);
    expect(happened).toEqual(['over']);
  });

  test('is not ended by its timeout while its own transaction commits; if that fails, it is', () => {
    const committing = attempt(100);
    expect(committing.beginCommit()).toBe(true);
    expect(committing.live).toBe(false);
    vi.advanceTimersByTime(1_000);
    expect(happened).toEqual([]);
    committing.abandonCommit();
    vi.advanceTimersByTime(1);
    expect(happened).toEqual(['timeout']);
  });

  test('knows its open transactions; the error of having left one is no rejection of its own', () => {
    const left = attempt(100);
    expect(left.open).toBeUndefined();
    const [one, other] = (['ctx.transaction', 'ctx.settleIn'] as const).map((by) => ({ by, ended: never }));
    if (one === undefined || other === undefined) throw new Error('two transactions');
    left.opened(one);
    left.opened(other);
    left.closed(one);
    expect(left.open).toBe(other);
    left.leftOpen = new Error('not awaited');
    left.rejected(never, left.leftOpen);
    left.rejected(never, 'another');
    expect([happened, left.floats]).toEqual([['another, true'], true]);
    left.closed(other);
    expect(left.open).toBeUndefined();
    left.finish();
  });

  test('aborts for the first reason, whenever its signal is asked for', () => {
    const aborted = attempt(100);
    aborted.abort('cancelled');
    aborted.abort('shutdown');
    expect(aborted.signal.reason).toMatchObject({ code: 'cancelled' });
    expect(aborted.over).toBe(false);
    aborted.abort('lease_lost');
    expect(aborted.over).toBe(true);
    expect(aborted.aborted).toBe('cancelled');
  });
});

test("a heartbeat's answer does not reach a newer lease of the same job, nor one that has ended meanwhile", () => {
  const observed: unknown[] = [];
  const observe = (event: unknown): void => void observed.push(event);
  const old = attempt(100, 'old');
  const asked = [old];
  old.finish();
  const newer = attempt(100, 'new');
  applyHeartbeat(asked, { lost: [old.lease], cancelled: [] }, observe);
  expect([newer.live, observed]).toEqual([true, []]);
  // The heartbeat asks about both leases of one job; only the older one is lost.
  const stale = attempt(100, 'stale');
  applyHeartbeat([stale, newer], { lost: [stale.lease], cancelled: [] }, observe);
  expect([stale.aborted, newer.aborted]).toEqual(['lease_lost', undefined]);
  applyHeartbeat([newer], { lost: [], cancelled: ['id'] }, observe);
  expect(newer.aborted).toBe('cancelled');
  newer.finish();
});
