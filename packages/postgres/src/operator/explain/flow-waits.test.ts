import { describe, expect, test } from 'vitest';
import type { StepInfo } from '../../reads/flows.ts';
import { waitingSteps, waitingText } from './flow-waits.ts';

const open: StepInfo = {
  step: 0,
  name: 'pages',
  kind: 'jobs',
  state: 'open',
  outcome: null,
  needs: [],
  wants: 'all',
  layer: 0,
  added: 100_000,
  done: 95_000,
  dead: 3,
  other: 685,
  stopAfter: null,
  stopping: false,
  signalled: false,
  delayMs: null,
  due: null,
  opened: new Date(0),
  ended: null,
};
const ok: StepInfo = { ...open, step: 1, name: 'ok', kind: 'signal', added: 0, done: 0, dead: 0, other: 0 };
const late: StepInfo = { ...ok, step: 2, name: 'late', kind: 'timer', delayMs: 60_000, due: new Date(0) };
const sum: StepInfo = {
  ...ok,
  step: 3,
  name: 'sum',
  kind: 'jobs',
  state: 'blocked',
  added: 1,
  needs: [open, ok, late].map(({ step, name }) => ({ step, name, condition: 'ended' })),
};
const told = (steps: readonly StepInfo[]): readonly string[] =>
  waitingSteps(steps).map((step) => waitingText(step, (ms) => `${ms / 1_000}s`));

describe('a blocked step', () => {
  test('waits for jobs, a signal and a time', () => {
    expect(told([open, ok, late, sum]).at(-1)).toBe(
      'waits for pages: 4,312 of 100,000 left, 3 dead, 685 cancelled or expired; ok: not signalled; late: until 1970-01-01T00:00:00.000Z',
    );
  });

  test('does not name what has ended, nor count below nothing', () => {
    const ended: StepInfo = { ...ok, state: 'ended', outcome: 'done' };
    const more: StepInfo = { ...open, done: 200_000 };
    expect(told([more, ended, late, sum]).at(-1)).toBe(
      'waits for pages: 0 of 100,000 left, 3 dead, 685 cancelled or expired; late: until 1970-01-01T00:00:00.000Z',
    );
  });

  test('with many needs names the first ten', () => {
    const many = Array.from({ length: 12 }, (_, n): StepInfo => ({ ...ok, step: n, name: `s${n}` }));
    const waits: StepInfo = {
      ...sum,
      step: 12,
      needs: many.map(({ step, name }) => ({ step, name, condition: 'done' })),
    };
    expect(told([...many, waits]).at(-1)).toMatch(
      /^waits for s0: not signalled; .*; s9: not signalled; 2 more$/,
    );
  });

  test('that waits for nothing any more is opened by the leader', () => {
    expect(told([{ ...sum, needs: [] }])).toEqual(['opens as soon as a scheduler leads']);
  });
});
