import { describe, expect, test } from 'vitest';
import { aPool, aSnapshot } from '../../testing/snapshots.ts';
import { coalescingHold } from './coalescing.ts';
import type { Coalesce } from '../parts.ts';
import type { Candidate, Lane } from '../snapshot.ts';

function jobOf(id: string, rest: Partial<Candidate> = {}): Candidate {
  return {
    id,
    queue: 'mail',
    key: 'acme',
    task: 'send',
    version: 1,
    priority: 0,
    seq: Number(id),
    createdMs: 1_000 + Number(id),
    expiresMs: null,
    attributes: {},
    tries: 0,
    ...rest,
  };
}

function laneOf(...jobs: readonly Candidate[]): Lane {
  return { queue: 'mail', key: 'acme', jobs, more: false, retryDueMs: null, fresh: true };
}

const rule: Coalesce = { when: ({ task }) => task === 'send', max: 3, ageMs: 500 };

describe('coalescingHold', () => {
  const first = jobOf('1');
  const second = jobOf('2');

  test('until the first of them is old enough', () => {
    const lane = laneOf(first, second, jobOf('3', { task: 'other' }), jobOf('4', { version: 2 }));
    expect(coalescingHold([rule], { job: second, lane, snapshot: aSnapshot({ nowMs: 1_400 }) })).toEqual({
      gate: 'coalescing',
      message: 'it waits for more jobs of task send and its key, to go together: 2 of 3 are there',
      untilMs: 1_501,
    });
    expect(
      coalescingHold([rule], { job: second, lane, snapshot: aSnapshot({ nowMs: 1_501 }) }),
    ).toBeUndefined();
  });

  test('not where the batch is full, and not where no rule is about it', () => {
    const full = laneOf(first, second, jobOf('3'));
    expect(
      coalescingHold([rule], { job: second, lane: full, snapshot: aSnapshot({ nowMs: 1_400 }) }),
    ).toBeUndefined();
    const other = jobOf('5', { task: 'other' });
    expect(
      coalescingHold([rule], { job: other, lane: laneOf(other), snapshot: aSnapshot({ nowMs: 1_400 }) }),
    ).toBeUndefined();
  });

  test('not where it goes alone, and not while a node that can run it takes no bundles', () => {
    const lane = laneOf(first, second);
    const single = {
      ...aPool(1),
      groups: [{ tasks: { send: { min: 1, max: 1, single: true } }, slots: 1, depth: 1 }],
    };
    const snapshot = aSnapshot({ nowMs: 1_400, pools: { default: single } });
    expect(coalescingHold([rule], { job: second, lane, snapshot })).toBeUndefined();
    const alone = { ...second, alone: true };
    expect(
      coalescingHold([rule], { job: alone, lane, snapshot: aSnapshot({ nowMs: 1_400 }) }),
    ).toBeUndefined();
  });
});
