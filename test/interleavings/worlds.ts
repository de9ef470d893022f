import type { JobState, Operation } from './model.ts';

const base: JobState = {
  where: 'pending',
  tries: 0,
  crashes: 0,
  token: null,
  node: null,
  expired: false,
  stop: false,
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
  /** n1 had lost it; n2 has it now. */
  stolen: { ...running, token: 't2', node: 'n2', crashes: 1 },
  /** Its next failure is its last, and so is its next crash. */
  frail: { ...running, expired: true, tries: 2, crashes: 2 },
  dead: { ...base, where: 'dead', tries: 3 },
} as const satisfies Readonly<Record<string, JobState>>;

export type StateName = keyof typeof states;

const names = Object.keys(states) as readonly StateName[];

/** The states of the two jobs: alike, where their locks are taken twice; and mixed, where an operation acts on one of them only. */
export const starts: readonly (readonly [StateName, StateName])[] = [
  ...names.map((name) => [name, name] as const),
  ['running', 'expired'],
  ['running', 'ready'],
  ['ready', 'pending'],
  ['dead', 'running'],
  ['stopping', 'expired'],
  ['stolen', 'frail'],
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
  if (operation.kind === 'settle') return `settle ${operation.outcomes.join('+')}`;
  return operation.kind === 'claim' ? `claim ${operation.node}` : operation.kind;
}
