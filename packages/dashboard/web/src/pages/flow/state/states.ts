import type { FlowStep } from '../../../../../src/contract.ts';
import { counted, exact } from '../../../format/numbers.ts';
import type { Tone } from '../../../ui/status.tsx';

/** One word for the state of a step: its outcome once it has ended. */
export type StepWord = 'blocked' | 'open' | 'stopping' | 'done' | 'failed' | 'cancelled' | 'skipped';

export const stepWords: readonly StepWord[] = [
  'open',
  'stopping',
  'blocked',
  'failed',
  'cancelled',
  'skipped',
  'done',
];

export function wordOf({ state, outcome, stopping }: FlowStep): StepWord {
  if (state === 'ended') return outcome ?? 'done';
  return state === 'open' && stopping ? 'stopping' : state;
}

export const stepTones: Readonly<Record<StepWord, Tone>> = {
  blocked: 'quiet',
  open: 'accent',
  stopping: 'warn',
  done: 'good',
  failed: 'bad',
  cancelled: 'warn',
  skipped: 'quiet',
};

/** Returns the jobs of a step that have ended. */
export function endedOf({ done, dead, other }: Pick<FlowStep, 'done' | 'dead' | 'other'>): number {
  return done + dead + other;
}

export function leftOf(step: Pick<FlowStep, 'added' | 'done' | 'dead' | 'other'>): number {
  return Math.max(0, step.added - endedOf(step));
}

/** Describes the numbers of a step: `95,688 of 100,000, 3 dead`; of a signal or a timer, what is with it. */
export function countsText(step: FlowStep): string {
  const { kind, added, dead, other, state, signalled } = step;
  if (kind === 'signal') return signalled ? 'signalled' : state === 'ended' ? 'not given' : 'not signalled';
  if (kind === 'timer') return 'timer';
  return [
    state === 'blocked' ? counted(added, 'job') : `${exact(endedOf(step))} of ${exact(added)}`,
    ...(dead === 0 ? [] : [`${exact(dead)} dead`]),
    ...(other === 0 ? [] : [`${exact(other)} cancelled or expired`]),
  ].join(', ');
}
