import { gate } from '@pgqueue/core';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { Crowd, CrowdOptions } from '../../testing/crowd.ts';
import { createCrowd } from '../../testing/crowd.ts';

vi.setConfig({ testTimeout: 120_000 });

/**
 * A backlog of up to five times as many keys as a leader remembers. `byKey`: enqueue all jobs of one key,
 * then the next key; otherwise one job of each key in turn.
 */
interface Shape {
  readonly lanesMax: number;
  readonly keys: number;
  readonly jobs: number;
  readonly slots: number;
  readonly byKey: boolean;
}

const shapes = fc
  .record({
    // more than a full page of 500 lanes, so that a page never holds all of them
    lanesMax: fc.integer({ min: 520, max: 600 }),
    times: fc.integer({ min: 1, max: 5 }),
    jobs: fc.integer({ min: 3, max: 6 }),
    slots: fc.integer({ min: 40, max: 120 }),
    byKey: fc.boolean(),
  })
  .map(({ times, ...shape }): Shape => ({ ...shape, keys: shape.lanesMax * times }));

function filled({ keys, jobs, byKey, ...options }: Shape, more: Partial<CrowdOptions> = {}): Crowd {
  const crowd = createCrowd({ ...options, ...more });
  const name = (n: number): string => `old${String((n * 7919) % keys).padStart(6, '0')}`;
  if (byKey) for (let n = 0; n < keys; n += 1) crowd.enqueue(name(n), jobs);
  else for (let n = 0; n < keys * jobs; n += 1) crowd.enqueue(name(n % keys), 1);
  crowd.pass(10_000);
  return crowd;
}

const runs = (n: number) => ({ numRuns: n, seed: 20_261_123 });
const ticks = (crowd: Crowd, n: number): readonly string[] => Array.from({ length: n }, crowd.tick).flat();
/** Ticks until `n` jobs were dispatched, or 100 ticks in a row dispatched none. */
function dispatches(crowd: Crowd, n: number): void {
  for (let [went, idle] = [0, 0]; went < n && idle < 100;) {
    const jobs = crowd.tick().length;
    went += jobs;
    idle = jobs === 0 ? idle + 1 : 0;
  }
}

describe('with more keys than a leader remembers', () => {
  test('the first job of a new key goes in the tick that sees it, which is one of the next two', () => {
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 60 }), (shape, before) => {
        const crowd = filled(shape);
        ticks(crowd, before);
        for (const key of ['new a', 'zz new b']) {
          crowd.enqueue(key, 1);
          expect(ticks(crowd, 2)).toContain(key);
        }
      }),
      runs(10),
    );
  });

  test('every key that waits has its first job within two dispatches a key, and none has many more than another', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { keys, lanesMax } = shape;
        const crowd = filled({ ...shape, jobs: 20 });
        dispatches(crowd, 2 * keys + 3 * lanesMax);
        const first = [...crowd.went.values()];
        expect(Math.min(...first)).toBeGreaterThanOrEqual(1);
        expect(Math.max(...first)).toBeLessThanOrEqual(9);
        dispatches(crowd, 2 * keys + 3 * lanesMax);
        expect(Math.min(...crowd.went.values())).toBeGreaterThanOrEqual(2);
      }),
      runs(4),
    );
  });

  test('nor does a stream of ever new keys hide those that wait, which keep half of the slots, nor they the stream', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { keys, slots, lanesMax } = shape;
        const crowd = filled({ ...shape, jobs: 20 });
        ticks(crowd, 5);
        const came = new Map<string, number>();
        let latest = 0;
        for (let n = 0; n * slots < 5 * keys + 6 * lanesMax; n += 1) {
          for (let one = 0; one < Math.floor(slots / 2) - 1; one += 1) {
            came.set(`new${n}-${one}`, n);
            crowd.enqueue(`new${n}-${one}`, 1);
          }
          for (const key of crowd.tick()) latest = Math.max(latest, n - (came.get(key) ?? n));
          for (const key of crowd.went.keys()) if ((crowd.went.get(key) ?? 0) > 0) came.delete(key);
        }
        const old = [...crowd.went].filter(([key]) => key.startsWith('old'));
        expect(Math.min(...old.map(([, jobs]) => jobs))).toBeGreaterThanOrEqual(1);
        expect(latest).toBeLessThanOrEqual(3);
      }),
      runs(3),
    );
  });

  test('keys that a rule holds hide no others', () => {
    fc.assert(
      fc.property(shapes, fc.integer({ min: 2, max: 10 }), (shape, of) => {
        const { keys, lanesMax, slots } = shape;
        const isHeld = (key: string): boolean => key.startsWith('old') && Number(key.slice(3)) % of !== 0;
        const holds = gate({ name: 'hold', admits: ({ key }) => (isHeld(key) ? 'not now' : true) });
        const crowd = filled(shape, { gates: [holds] });
        ticks(crowd, Math.ceil((keys + 2 * lanesMax) / slots) + Math.ceil((4 * keys) / 32));
        const free = [...crowd.went].filter(([key]) => !isHeld(key));
        expect(Math.min(...free.map(([, jobs]) => jobs))).toBeGreaterThanOrEqual(1);
        crowd.enqueue('new', 1);
        expect(crowd.tick()).toContain('new');
      }),
      runs(2),
    );
  });

  test('a key of three times the weight gets more than twice as many jobs', () => {
    const heavy = new Set(['old000010', 'old001200', 'old002777']);
    const crowd = filled(
      { lanesMax: 600, keys: 3_000, jobs: 20, slots: 24, byKey: true },
      { level: { weight: (key) => (heavy.has(key) ? 3 : 1) } },
    );
    dispatches(crowd, 18_000);
    const of = (keys: readonly string[]): number =>
      keys.reduce((sum, key) => sum + (crowd.went.get(key) ?? 0), 0) / keys.length;
    const light = [...crowd.went.keys()].filter((key) => !heavy.has(key));
    expect(of([...heavy])).toBeGreaterThan(2 * of(light));
  });

  test('no more are remembered than twice as many as fit, however many come at once', () => {
    const crowd = createCrowd({ lanesMax: 520, slots: 40 });
    for (let n = 0; n < 2_000; n += 1) crowd.enqueue(`k${n}`, 2);
    crowd.tick();
    for (let n = 0; n < 2_000; n += 1) crowd.enqueue(`new${n}`, 2);
    crowd.tick();
    expect(crowd.known()).toBeLessThanOrEqual(1_040);
    const all = ticks(crowd, 250);
    expect(new Set(all).size).toBeGreaterThan(3_900);
  });
});
