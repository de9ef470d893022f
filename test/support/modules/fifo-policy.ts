import { fifo, policy as compose } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';

/** For commands that take a policy from a file. */
export const policy: Policy = compose({ order: fifo() });
