/**
 * Matchers for jest: `setupFilesAfterEnv: ['@pgqueue/testing/jest']` adds them to its `expect`, and to the
 * types of it.
 */
import { PgQueueError } from '@pgqueue/core';
import type { Expect } from 'expect';
import type { PgQueueMatchers } from './matcher/matchers.ts';
import { matchers } from './matcher/matchers.ts';

export { matchers } from './matcher/matchers.ts';

declare module 'expect' {
  interface Matchers<R extends void | Promise<void>, T = unknown> extends PgQueueMatchers {}
}

declare global {
  // The namespace of @types/jest.
  namespace jest {
    interface Matchers<R, T> extends PgQueueMatchers {}
  }
}

const { expect } = globalThis as { readonly expect?: Pick<Expect, 'extend'> };
if (expect === undefined) {
  throw new PgQueueError(
    'configuration',
    "jest's expect is not there: name @pgqueue/testing/jest in setupFilesAfterEnv; with injectGlobals: false, call expect.extend(matchers)",
  );
}
expect.extend(matchers);
