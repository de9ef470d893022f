import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addHistograms, quantileMs } from './activity.ts';
import { groupOf, withoutDetails } from './dead-groups.ts';
import { firstIdOf } from '../reads/job-sources.ts';
import { timeOfId } from './find-jobs.ts';

const bucketOf = (ms: number): number =>
  ms <= 1 ? 0 : Math.min(160, Math.ceil(Math.log(ms) / Math.log(1.25)));

function histogramOf(values: readonly number[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const ms of values) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
  return counts;
}

describe('quantiles', () => {
  test('are right to within 12 %', () => {
    const times = fc.array(fc.double({ min: 1.001, max: 1e9, noNaN: true }), {
      minLength: 1,
      maxLength: 200,
    });
    fc.assert(
      fc.property(times, fc.constantFrom(0.5, 0.95, 0.99), (values, share) => {
        const exact = values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? 0;
        const told = quantileMs(histogramOf(values), share) ?? 0;
        expect(told / exact).toBeGreaterThan(0.89);
        expect(told / exact).toBeLessThan(1.12);
      }),
    );
  });

  test('of parts add up to those of the whole', () => {
    const [a, b] = [
      [1, 5, 9, 1_000],
      [3, 3, 70_000],
    ];
    expect(addHistograms([histogramOf(a), histogramOf(b)])).toEqual(histogramOf([...a, ...b]));
    expect(quantileMs({}, 0.5)).toBeNull();
  });
});

function groupOfError(message: string, task = 't'): ReturnType<typeof groupOf> {
  return groupOf({
    id: '',
    queue: 'q',
    task,
    key: '',
    reason: 'max_tries',
    tries: 1,
    crashes: 0,
    created: new Date(),
    died: new Date(),
    ageMs: 0,
    node: null,
    lastError: { message, node: null, try: 1, at: '' },
  });
}

describe('errors that differ in details', () => {
  test.each([
    ['user 17 was not found', 'user … was not found'],
    ['connect ECONNREFUSED 10.0.0.7:5432', 'connect ECONNREFUSED …'],
    ['no order "A-17" for \'x\'', 'no order … for …'],
    ['job 01a1ff88-0f52-7fae-b522-c21ba6e8b06b failed', 'job … failed'],
    ['bad object 0xdeadbeef at 5f3a9c0d1e2b4a6f', 'bad object … at …'],
    ['took 1.5s, 20 of 30', 'took …s, … of …'],
    ['', ''],
  ])('%j is told as %j', (message, told) => {
    expect(withoutDetails(message)).toBe(told);
  });

  test('are one group, and others are others', () => {
    const dead = (message: string, task?: string): string => groupOfError(message, task).group;
    expect(dead('user 1')).toBe(dead('user 22'));
    expect(dead('user 1')).not.toBe(dead('user 1', 'u'));
    expect(dead('user 1')).not.toBe(dead('order 1'));
  });

  test.each([
    ["'text'", "'text'"],
    ['42: "a"', '42: "a"'],
    ["KeyError('text')", 'KeyError(…)'],
    ['', ''],
  ])('of nothing but details a group is called by a job’s own: %j', (message, called) => {
    expect(groupOfError(message).message).toBe(called);
  });

  test('such jobs are one group all the same', () => {
    expect(groupOfError("'text'").group).toBe(groupOfError("'name'").group);
  });

  test('long and hostile ones come to an end', () => {
    for (const part of ['"', "'", '`', '1.', 'a', '…-'])
      expect(withoutDetails(part.repeat(2_000))).toBeTypeOf('string');
  });
});

test('ids and times are each other’s', () => {
  const time = new Date('2026-11-21T19:14:29.333Z');
  expect(timeOfId(firstIdOf(time))).toEqual(time);
  expect(firstIdOf(time) < '01a1ff88-0f52-7fae-b522-c21ba6e8b06b').toBe(
    timeOfId('01a1ff88-0f52-7fae-b522-c21ba6e8b06b') >= time,
  );
});
