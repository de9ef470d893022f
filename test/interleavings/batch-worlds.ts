import type { Operation } from './model.ts';
import type { Start } from './worlds.ts';
import { states } from './worlds.ts';

const { pending, ready, running, expired, stolen, frail } = states;
const whole = { row: 'whole' } as const;
const rest = { row: 'rest' } as const;
const alike = (name: string, job: Start['jobs'][number]): Start => ({ name, jobs: [job, job, job] });

/** Three jobs that stand in one batch, or stood in one. */
export const batchStarts: readonly Start[] = [
  alike('pending', pending),
  alike('ready batch', { ...ready, ...whole }),
  alike('held batch', { ...running, ...whole }),
  alike('expired batch', { ...expired, ...whole }),
  alike('frail batch', { ...frail, ...whole }),
  // n1 has given it back, and n2 has it now
  alike("another's batch", { ...stolen, ...whole }),
  alike('batch taken apart', running),
  { name: 'one taken out', jobs: [running, { ...running, ...rest }, { ...running, ...rest }] },
  { name: 'one taken out, expired', jobs: [expired, { ...expired, ...rest }, { ...expired, ...rest }] },
  { name: 'one taken out, others given back', jobs: [running, { ...ready, ...rest }, { ...ready, ...rest }] },
];

/** Everything that can meet a batch. */
export const batchOperations: readonly Operation[] = [
  { kind: 'tickTogether' },
  { kind: 'takeBack' },
  { kind: 'takeBackOne' },
  { kind: 'claim', node: 'n2' },
  { kind: 'claimRows', node: 'n1' },
  { kind: 'claimRows', node: 'n2' },
  { kind: 'settleRows', of: 'whole' },
  { kind: 'settleRows', of: 'rest' },
  { kind: 'settle', outcomes: ['done', 'done', 'done'] },
  { kind: 'settle', outcomes: ['retry', 'done', 'snooze'] },
  { kind: 'takeOut' },
  { kind: 'takeApart' },
  { kind: 'releaseRows', of: 'whole' },
  { kind: 'releaseRows', of: 'rest' },
  { kind: 'release' },
  { kind: 'releaseClaim' },
  { kind: 'extend' },
  { kind: 'progress' },
  { kind: 'checkpoint' },
  { kind: 'cancel' },
  { kind: 'cancelOne' },
  { kind: 'beatHolding' },
  { kind: 'reset' },
  { kind: 'leave' },
  { kind: 'register' },
  { kind: 'lose' },
  { kind: 'miss' },
  { kind: 'steal' },
];
