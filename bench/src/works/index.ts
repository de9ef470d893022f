import { backlog } from './backlog.ts';
import { drain } from './drain.ts';
import { enqueue } from './enqueue.ts';
import { fair } from './fair.ts';
import { flows } from './flows.ts';
import { handlers } from './handlers.ts';
import { idle } from './idle.ts';
import { keys } from './keys.ts';
import { latency } from './latency.ts';
import { soak } from './soak.ts';
import { pinned, sustain } from './sustain.ts';
import type { Work } from './work.ts';

/** Works that take long and run only if they are named. */
export const longWorks: readonly Work[] = [soak];

export const works: readonly Work[] = [
  drain,
  sustain,
  latency,
  enqueue,
  backlog,
  pinned,
  fair,
  keys,
  handlers,
  flows,
  idle,
];
