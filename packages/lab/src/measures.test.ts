import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compete,
  createFairness,
  createPart,
  createQueuePart,
  jain,
  settle,
  shareOut,
} from './simulation/fairness.ts';
import type { SimJob } from './line.ts';
import { createLine } from './line.ts';
import { quantile, sorted, spreadOf } from './simulation/quantiles.ts';
import { chance, createRandom } from './workloads/random.ts';
import { createSeries } from './simulation/series.ts';

function job(seq: number, priority = 0): SimJob {
  const facts = { id: `job-${seq}`, queue: 'q', key: 'k', task: 't', version: 1, priority, seq, tries: 0 };
  return {
    facts: { ...facts, createdMs: 0, expiresMs: null, attributes: {} },
    draw: seq,
    step: null,
    durationMs: 1,
    deadlineMs: null,
    failures: 0,
    crashes: 0,
    attempts: 0,
    waits: false,
    kind: '',
  };
}

describe('a line', () => {
  // the model: an array that is sorted again at each look
  test('has its waiting jobs by priority, then seq, whatever goes and comes back', () => {
    const steps = fc.array(fc.record({ add: fc.boolean(), at: fc.nat(200), priority: fc.nat(2) }), {
      maxLength: 400,
    });
    fc.assert(
      fc.property(steps, fc.nat(8), (all, count) => {
        const line = createLine();
        const gone: SimJob[] = [];
        const waiting: SimJob[] = [];
        let seq = 0;
        for (const { add, at, priority } of all) {
          const back = gone.length > 0 && at % 3 === 0;
          if (add || waiting.length === 0) {
            const one = back ? gone.splice(at % gone.length, 1)[0] : job((seq += 1), priority);
            if (one === undefined) continue;
            line.add(one, 4);
            waiting.push(one);
          } else {
            const [one] = waiting.splice(at % waiting.length, 1);
            if (one === undefined) continue;
            line.remove(one);
            gone.push(one);
          }
          waiting.sort((a, b) => a.facts.priority - b.facts.priority || a.facts.seq - b.facts.seq);
          expect(line.size()).toBe(waiting.length);
          expect(line.first(count).map(({ facts }) => facts.seq)).toEqual(
            waiting.slice(0, count).map(({ facts }) => facts.seq),
          );
        }
      }),
      { numRuns: 200, seed: 7 },
    );
  });

  test('says whether a job came to stand among the first few', () => {
    const line = createLine();
    for (let seq = 10; seq < 20; seq += 1) line.add(job(seq), 4);
    expect(line.add(job(20), 4)).toBe(false);
    expect(line.add(job(5), 4)).toBe(true);
  });
});

describe('fairness', () => {
  test('what plans gave is due by weight, queues first, then their keys', () => {
    const fairness = createFairness(0);
    const [one, two] = [createQueuePart(3), createQueuePart(1)];
    const [a, b, c] = [createPart(one, 1), createPart(one, 2), createPart(two, 1)];
    for (const part of [a, b, c]) compete(fairness, part, true, 0);
    shareOut(fairness, [
      { part: a, workMs: 100 },
      { part: c, workMs: 300 },
    ]);
    for (const part of [a, b, c]) settle(fairness, part);
    expect([a.servedMs, b.servedMs, c.servedMs]).toEqual([100, 0, 300]);
    expect([a.entitledMs, b.entitledMs, c.entitledMs]).toEqual([100, 200, 100]);
  });

  test('only between those that compete, and while there are two of them', () => {
    const fairness = createFairness(0);
    const queue = createQueuePart(1);
    const [a, b, late] = [createPart(queue, 1), createPart(queue, 1), createPart(queue, 1)];
    compete(fairness, a, true, 0);
    shareOut(fairness, [{ part: a, workMs: 1_000 }]);
    compete(fairness, b, true, 10);
    shareOut(fairness, [
      { part: a, workMs: 60 },
      { part: late, workMs: 500 },
    ]);
    compete(fairness, late, true, 30);
    compete(fairness, a, false, 40);
    shareOut(fairness, [{ part: late, workMs: 20 }]);
    compete(fairness, b, false, 50);
    for (const part of [a, b, late]) settle(fairness, part);
    expect([a, b, late].map(({ entitledMs }) => entitledMs)).toEqual([30, 40, 10]);
    expect([a, b, late].map(({ servedMs }) => servedMs)).toEqual([60, 0, 20]);
    expect(fairness.contendedMs).toBe(40);
  });

  test("Jain's index is 1 for the same, and 1/n where one has all", () => {
    expect(jain([])).toBeNull();
    expect(jain([5, 5, 5])).toBeCloseTo(1, 12);
    expect(jain([9, 0, 0])).toBeCloseTo(1 / 3, 12);
    expect(jain([0, 0])).toBe(1);
    expect(jain([1, 3])).toBeCloseTo(16 / 20, 12);
  });
});

test('quantiles are of the nearest rank, as sorting says', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { minLength: 1 }),
      fc.integer({ min: 1, max: 100 }),
      (times, percent) => {
        const half = Math.floor(times.length / 2);
        const found = quantile(sorted([times.slice(0, half), times.slice(half)]), percent / 100) ?? -1;
        const up = times.filter((time) => time <= found).length / times.length;
        const below = times.filter((time) => time < found).length / times.length;
        expect(times).toContain(found);
        expect(up).toBeGreaterThanOrEqual(percent / 100 - 1e-12);
        expect(below).toBeLessThan(percent / 100 + 1e-12);
      },
    ),
    { numRuns: 200, seed: 3 },
  );
  expect(spreadOf(sorted([]))).toEqual({
    count: 0,
    meanMs: null,
    p50Ms: null,
    p95Ms: null,
    p99Ms: null,
    maxMs: null,
  });
});

test('a series keeps its areas, however far time runs', () => {
  const spans = fc.array(fc.record({ from: fc.nat(100_000), lasts: fc.nat(50_000), level: fc.nat(5) }), {
    minLength: 1,
    maxLength: 50,
  });
  fc.assert(
    fc.property(spans, (all) => {
      const series = createSeries(1_000);
      let area = 0;
      let endMs = 0;
      for (const { from, lasts, level } of all) {
        series.add(0, { fromMs: 1_000 + from, toMs: 1_000 + from + lasts }, level);
        area += level * lasts;
        endMs = Math.max(endMs, from + lasts);
      }
      const { stepMs, rows } = series.means();
      const [row = []] = rows;
      expect(row.length).toBeLessThanOrEqual(240);
      const lastMs = endMs - (row.length - 1) * stepMs;
      const sum = row.reduce(
        (total, mean, at) => total + mean * (at === row.length - 1 ? lastMs : stepMs),
        0,
      );
      expect(sum).toBeCloseTo(area, 3);
    }),
    { numRuns: 200, seed: 11 },
  );
});

describe('chance', () => {
  test('is the same for the same seed, and spread evenly', () => {
    const draw = (seed: number): readonly number[] => {
      const { uniform } = createRandom(seed);
      return Array.from({ length: 20_000 }, uniform);
    };
    const numbers = draw(1);
    expect(numbers.slice(0, 50)).toEqual(draw(1).slice(0, 50));
    expect(numbers.slice(0, 50)).not.toEqual(draw(2).slice(0, 50));
    const counts = Array.from(
      { length: 10 },
      (_, at) => numbers.filter((one) => Math.floor(one * 10) === at).length,
    );
    // χ² with 9 degrees of freedom: above 27.9 once in a thousand seeds
    expect(counts.reduce((sum, count) => sum + (count - 2_000) ** 2 / 2_000, 0)).toBeLessThan(27.9);
  });

  test('of a thing depends on each of its parts', () => {
    const seen = new Set<number>();
    for (let seed = 0; seed < 10; seed += 1) {
      for (let seq = 0; seq < 100; seq += 1)
        for (let attempt = 0; attempt < 5; attempt += 1) seen.add(chance(seed, seq, attempt));
    }
    expect(seen.size).toBe(5_000);
    const mean = [...seen].reduce((sum, one) => sum + one, 0) / seen.size;
    expect(mean).toBeGreaterThan(0.48);
    expect(mean).toBeLessThan(0.52);
  });

  test('has the means that its distributions say', () => {
    const random = createRandom(9);
    const meanOf = (draw: () => number): number =>
      Array.from({ length: 20_000 }, draw).reduce((sum, one) => sum + one, 0) / 20_000;
    expect(meanOf(() => random.exponential(50))).toBeCloseTo(50, -1);
    expect(Math.abs(meanOf(random.normal))).toBeLessThan(0.03);
    expect(meanOf(() => random.lognormal(10, 0.5))).toBeCloseTo(10 * Math.exp(0.125), 0);
    expect(meanOf(() => random.below(11))).toBeCloseTo(5, 0);
  });
});
