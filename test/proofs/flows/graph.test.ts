import { expect, test } from 'vitest';
import type { Outcome, Step } from './graph.ts';
import { behind, decide, hasFailed, isSuperfluous, outcomeOf } from './graph.ts';

const step = (needs: Step['needs'] = [], wants: Step['wants'] = 'all'): Step => ({
  kind: 'jobs',
  wants,
  needs,
});

test('a step opens when its needs are met, and is skipped as soon as they can not be', () => {
  const both = step([
    [0, 'done'],
    [1, 'failed'],
  ]);
  const cases: readonly (readonly [readonly (Outcome | undefined)[], string])[] = [
    [[undefined, undefined], 'waits'],
    [['done', undefined], 'waits'],
    [['done', 'cancelled'], 'opens'],
    [['failed', undefined], 'skips'],
    [['done', 'skipped'], 'skips'],
  ];
  for (const [outcomes, decision] of cases) expect(decide(both, outcomes)).toBe(decision);
  expect(decide(step(), [])).toBe('opens');
  expect(decide(step([[0, 'ended']]), ['skipped'])).toBe('opens');
});

test('a step that wants any of its needs opens with the first, and is skipped with the last', () => {
  const any = step(
    [
      [0, 'done'],
      [1, 'done'],
    ],
    'any',
  );
  expect(decide(any, ['failed', undefined])).toBe('waits');
  expect(decide(any, [undefined, 'done'])).toBe('opens');
  expect(decide(any, ['failed', 'skipped'])).toBe('skips');
});

test('a failure that somebody takes as an end is no failure of the flow', () => {
  expect(hasFailed([step()], ['failed'])).toBe(true);
  expect(hasFailed([step(), step([[0, 'ended']])], ['failed', 'done'])).toBe(false);
  expect(hasFailed([step(), step([[0, 'failed']])], ['cancelled', 'done'])).toBe(true);
  expect(hasFailed([step(), step([[0, 'ended']])], ['cancelled', 'skipped'])).toBe(true);
  expect(outcomeOf(['done', 'expired', 'dead'], false)).toBe('failed');
  expect(outcomeOf(['done', 'erased'], false)).toBe('cancelled');
});

test('nobody waits for a signal whose dependents are decided without it', () => {
  const needs: Step['needs'] = [
    [0, 'done'],
    [1, 'done'],
  ];
  const steps = [step(), { ...step(), kind: 'signal' as const }, step(needs)];
  const judged = (
    own: readonly Step[],
    outcomes: readonly Outcome[],
    opened: readonly number[] = [],
  ): boolean => isSuperfluous(own, 1, { outcomes, opened: new Set(opened) });
  expect(judged(steps, ['failed', 'skipped', 'skipped'])).toBe(true);
  expect(judged(steps, ['done', 'skipped', 'skipped'])).toBe(false);
  expect(judged(steps, ['done', 'skipped', 'done'], [2])).toBe(true);
  const timer: Step = { ...step([[1, 'done']]), kind: 'timer' };
  const chained = [
    step(),
    { ...step(), kind: 'signal' as const },
    timer,
    step([
      [0, 'done'],
      [2, 'done'],
    ]),
  ];
  expect(judged(chained, ['failed', 'skipped', 'skipped', 'skipped'])).toBe(true);
  expect(judged(chained, ['done', 'skipped', 'skipped', 'skipped'])).toBe(false);
  expect(judged([...steps.slice(0, 2), step(needs, 'any')], ['done', 'skipped', 'done'])).toBe(true);
});

test('a step and all that wait for it, through any others, are behind it', () => {
  const needs = [[], [0], [1], [0], [2, 3]];
  const chain = needs.map((all) => step(all.map((need) => [need, 'done'] as const)));
  expect(behind(chain, 1)).toEqual(new Set([1, 2, 4]));
});
