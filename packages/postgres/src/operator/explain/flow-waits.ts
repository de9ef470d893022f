import { unreachable } from '@pgqueue/core/internal';
import type { NeedInfo, StepInfo } from '../../reads/flows.ts';

/** One step that must end before another one opens, or before the flow ends. */
export type StepWait = { readonly step: string } & (
  | {
      /** Jobs of the step, as the leader counted them last. */
      readonly kind: 'jobs';
      readonly left: number;
      readonly added: number;
      readonly dead: number;
      readonly other: number;
    }
  | {
      readonly kind: 'signal';
      /** It was given: the leader ends the step when it is open. */
      readonly signalled: boolean;
    }
  | {
      readonly kind: 'timer';
      /** Null: the timer has not begun, and takes `delayMs` then. */
      readonly until: Date | null;
      readonly delayMs: number;
    }
  | {
      /** The step is blocked itself. */
      readonly kind: 'blocked';
    }
);

/** A step that has not ended, and what it waits for. */
export interface WaitingStep {
  readonly step: string;
  readonly state: 'blocked' | 'open';
  /** A blocked step waits for all of these, or for any of them; an open one for its own jobs, signal or time. */
  readonly wants: 'all' | 'any';
  readonly waits: readonly StepWait[];
  /**
   * As things stand it will be skipped, because of dead or cancelled jobs in a step that it needs done: a retry
   * of them changes that.
   */
  readonly skips: boolean;
}

/** Explains every step that has not ended, in order. Pure: needs no database. */
export function waitingSteps(steps: readonly StepInfo[]): readonly WaitingStep[] {
  const byNumber = new Map(steps.map((step) => [step.step, step]));
  return steps.flatMap((step): readonly WaitingStep[] => {
    const { name, state, wants } = step;
    if (state === 'ended') return [];
    if (state === 'open') return [{ step: name, state, wants: 'all', waits: [waitOf(step)], skips: false }];
    const needs = step.needs.flatMap((need) => {
      const needed = byNumber.get(need.step);
      return needed === undefined || needed.state === 'ended' ? [] : [{ need, needed }];
    });
    const lost = needs.filter(({ need, needed }) => isLost(need, needed)).length;
    const skips = lost > 0 && (wants === 'all' || lost === needs.length);
    return [{ step: name, state, wants, waits: needs.map(({ needed }) => waitOf(needed)), skips }];
  });
}

/** Reports whether a step that has not ended can't come to the outcome that is needed. */
function isLost({ condition }: NeedInfo, { dead, other }: StepInfo): boolean {
  return condition === 'done' && dead + other > 0;
}

function waitOf({ name: step, kind, state, ...rest }: StepInfo): StepWait {
  switch (kind) {
    case 'signal':
      return { step, kind, signalled: rest.signalled };
    case 'timer':
      return { step, kind, until: rest.due, delayMs: rest.delayMs ?? 0 };
    case 'jobs': {
      if (state === 'blocked') return { step, kind: 'blocked' };
      const { added, done, dead, other } = rest;
      return { step, kind, left: Math.max(0, added - done - dead - other), added, dead, other };
    }
    default:
      return unreachable(kind);
  }
}

/** Describes one wait: `pages: 4,312 of 100,000 left, 3 dead`. `age` formats a duration in milliseconds. */
export function waitText(wait: StepWait, age: (ms: number) => string): string {
  return `${wait.step}: ${restText(wait, age)}`;
}

function restText(wait: StepWait, age: (ms: number) => string): string {
  switch (wait.kind) {
    case 'jobs':
      return [
        `${grouped(wait.left)} of ${grouped(wait.added)} left`,
        ...(wait.dead === 0 ? [] : [`${grouped(wait.dead)} dead`]),
        ...(wait.other === 0 ? [] : [`${grouped(wait.other)} cancelled or expired`]),
      ].join(', ');
    case 'signal':
      return wait.signalled ? 'signalled' : 'not signalled';
    case 'timer':
      return wait.until === null
        ? `${age(wait.delayMs)} from its opening on`
        : `until ${wait.until.toISOString()}`;
    case 'blocked':
      return 'blocked';
    default:
      return unreachable(wait);
  }
}

/** Describes what a step waits for: `waits for pages: 4,312 of 100,000 left, 3 dead; ok: not signalled`. */
export function waitingText(
  { state, wants, waits, skips, step }: WaitingStep,
  age: (ms: number) => string,
): string {
  if (state === 'open') return waits.map((wait) => restText(wait, age)).join('; ');
  if (waits.length === 0) return 'opens as soon as a scheduler leads';
  const any = wants === 'any' && waits.length > 1 ? 'any of ' : '';
  const skipped = skips ? `; as it stands, ${step} will be skipped` : '';
  return `waits for ${any}${waitTexts(waits, age)}${skipped}`;
}

/** Describes the first ten waits, and counts the others. */
export function waitTexts(waits: readonly StepWait[], age: (ms: number) => string): string {
  const each = waits.slice(0, waitsMax).map((wait) => waitText(wait, age));
  const more = waits.length > waitsMax ? [`${grouped(waits.length - waitsMax)} more`] : [];
  return [...each, ...more].join('; ');
}

/** Most waits that a text lists. */
const waitsMax = 10;

/** Formats a count with commas: `100,000`. */
export function grouped(count: number): string {
  return count.toLocaleString('en-US');
}
