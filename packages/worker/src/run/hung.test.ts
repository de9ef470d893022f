import { expect, test } from 'vitest';
import type { Attempt } from '../attempt/attempt.ts';
import type { Unit } from '../lease/unit.ts';
import { hungSlots } from './hung.ts';

const attempt = (over: boolean, committed = false): Attempt =>
  ({ job: {}, over, committed }) as unknown as Attempt;
const unitOf = (...attempts: readonly Attempt[]): { readonly unit: Unit } => ({
  unit: attempts.map(({ job }) => job) as unknown as Unit,
});

test('slots of handlers that run on are counted: a bundle once, and only when the time of all its jobs is over', () => {
  const [over, live, committed] = [attempt(true), attempt(false), attempt(true, true)];
  expect(hungSlots([over, live, committed], [])).toBe(1);
  const [one, other] = [attempt(true), attempt(true)];
  expect(hungSlots([one, other, over], [unitOf(one, other)])).toBe(2);
  expect(hungSlots([one, live], [unitOf(one, live)])).toBe(0);
  expect(hungSlots([live, one], [unitOf(one, live)])).toBe(0);
});
