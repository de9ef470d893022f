/**
 * Matchers for vitest: `setupFiles: ['@pgqueue/testing/vitest']` adds them to its `expect`, and to the types
 * of it.
 */
import { expect } from 'vitest';
import type { PgQueueMatchers } from './matcher/matchers.ts';
import { matchers } from './matcher/matchers.ts';

export { matchers } from './matcher/matchers.ts';

declare module 'vitest' {
  // The type parameters must match those of vitest's own declaration.
  interface Matchers<
    R extends void | Promise<void> = void | Promise<void>,
    T = unknown,
  > extends PgQueueMatchers {}
}

expect.extend(matchers);
