import { expect, test } from 'vitest';
import type { Flowed } from './flow.ts';
import { flowMeasured, stretchesOf } from './flow.ts';

test('long flows compare minutes, short ones their ends', () => {
  expect(stretchesOf(600)).toEqual({ early: { from: 60, to: 120 }, late: { from: 540, to: 600 } });
  expect(stretchesOf(60)).toEqual({ early: { from: 0, to: 10 }, late: { from: 50, to: 60 } });
  expect(stretchesOf(1)).toEqual({ early: { from: 0, to: 1 }, late: { from: 0, to: 1 } });
});

const flowed: Flowed = {
  rates: Array.from({ length: 60 }, (_, second) => (second < 30 ? 100 : 50)),
  fromMicros: 1e12,
  tally: { runs: 0, distinct: 0, firstAt: 0, remembered: [], claims: [] },
  faults: [],
  costs: { nodeMicros: 7 },
};

test('what is kept of a rate is its end by its beginning', () => {
  expect(flowMeasured(flowed).metrics).toEqual({
    jobsPerSecond: 75,
    early: 100,
    late: 50,
    kept: 0.5,
    nodeMicros: 7,
  });
});

test('claims count where they ended', () => {
  const claims = [5, 9, 55].map((second) => ({ atMicros: 1e12 + second * 1e6, ms: second }));
  const { metrics } = flowMeasured({ ...flowed, tally: { ...flowed.tally, claims } });
  expect(metrics['claimEarly']).toBeCloseTo(8.96);
  expect(metrics['claimLate']).toBe(55);
});
