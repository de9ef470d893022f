import { expect, test } from 'vitest';
import { jobSpec, leaseMs, opSpec, tenants } from './workload.ts';

const workload = { seed: 3, poisonShare: 0.001 };
const jobs = Array.from({ length: 20_000 }, (_, n) => jobSpec(workload, 'p', n));
const share = (holds: (job: (typeof jobs)[number]) => boolean): number =>
  jobs.filter(holds).length / jobs.length;

test('a seed repeats its jobs and operations, another makes others', () => {
  expect(jobSpec(workload, 'p', 5)).toEqual(jobs[5]);
  expect(opSpec(workload, 'p', 9, 100)).toEqual(opSpec(workload, 'p', 9, 100));
  expect(jobSpec({ ...workload, seed: 4 }, 'p', 5)).not.toEqual(jobs[5]);
  expect(jobSpec(workload, 'q', 5).id).not.toBe(jobs[5]?.id);
  expect(new Set(jobs.map(({ id }) => id)).size).toBe(jobs.length);
});

test('the mix is as it says', () => {
  expect(share(({ ms }) => ms >= 5 && ms <= 50)).toBeCloseTo(0.9, 1);
  expect(share(({ kind }) => kind === 'medium')).toBeCloseTo(0.09, 1);
  expect(share(({ kind }) => kind === 'long')).toBeCloseTo(0.01, 2);
  expect(share(({ kind }) => kind === 'poison')).toBeCloseTo(0.001, 3);
  expect(share(({ fails }) => fails > 0)).toBeCloseTo(0.05, 1);
  expect(jobs.filter(({ kind }) => kind === 'long').every(({ ms }) => ms > 3 * leaseMs)).toBe(true);
  expect(Math.max(...jobs.map(({ pad }) => pad))).toBe(250_000);
  const first = share(({ tenant }) => tenant === 'tenant-0');
  const last = share(({ tenant }) => tenant === `tenant-${tenants - 1}`);
  expect(first / last).toBeGreaterThan(6);
});

test('ordered keys have short jobs only, and none that never ends', () => {
  const ordered = jobs.filter(({ queue }) => queue === 'ledger');
  expect(ordered.length / jobs.length).toBeCloseTo(0.09, 1);
  expect(ordered.every(({ ms, kind }) => ms <= 50 && kind !== 'poison')).toBe(true);
});
