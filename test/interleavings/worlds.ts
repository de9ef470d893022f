import type { JobState } from './job.ts';
import type { Operation } from './model.ts';

const base: JobState = {
  where: 'pending',
  tries: 0,
  crashes: 0,
  token: null,
  node: null,
  expired: false,
  stop: false,
  row: 'own',
};
const running: JobState = { ...base, where: 'running', token: 't1', node: 'n1' };

/** Every kind of state in which an operation can find a job. */
export const states = {
  pending: base,
  delayed: { ...base, where: 'delayed' },
  ready: { ...base, where: 'ready' },
  running,
  expired: { ...running, expired: true },
  stopping: { ...running, stop: true },
  /** n1 has lost it; n2 has it now. */
  stolen: { ...running, token: 't2', node: 'n2', crashes: 1 },
  /** Its next failure is its last, and so is its next crash. */
  frail: { ...running, expired: true, tries: 2, crashes: 2 },
  dead: { ...base, where: 'dead', tries: 3 },
} as const satisfies Readonly<Record<string, JobState>>;

type StateName = keyof typeof states;

/**
 * The jobs at the start of the two operations. They are alike, so that both are locked, or differ, so that an
 * operation acts on some of them only.
 */
export interface Start {
  readonly name: string;
  readonly jobs: readonly JobState[];
}

const names = Object.keys(states) as readonly StateName[];

const both = (first: StateName, second: StateName): Start => ({
  name: `${first}+${second}`,
  jobs: [states[first], states[second]],
});

/** Two jobs, each in a row of its own. */
export const starts: readonly Start[] = [
  ...names.map((name) => both(name, name)),
  both('running', 'expired'),
  both('running', 'ready'),
  both('ready', 'pending'),
  both('dead', 'running'),
  both('stopping', 'expired'),
  both('stolen', 'frail'),
];

export const operations: readonly Operation[] = [
  { kind: 'tick' },
  { kind: 'promote' },
  { kind: 'claim', node: 'n1' },
  { kind: 'claim', node: 'n2' },
  { kind: 'extend' },
  { kind: 'settle', outcomes: ['done', 'done'] },
  { kind: 'settle', outcomes: ['retry', 'done'] },
  { kind: 'settle', outcomes: ['snooze', 'dead'] },
  { kind: 'release' },
  { kind: 'reset' },
  { kind: 'beat' },
  { kind: 'leave' },
  { kind: 'register' },
  { kind: 'lose' },
  { kind: 'miss' },
  { kind: 'steal' },
  { kind: 'cancel' },
  { kind: 'redrive' },
];

export function nameOf(operation: Operation): string {
  if ('outcomes' in operation) return `settle ${operation.outcomes.join('+')}`;
  if ('node' in operation) return `${operation.kind} ${operation.node}`;
  return 'of' in operation ? `${operation.kind} ${operation.of}` : operation.kind;
}
