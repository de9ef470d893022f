import type { TestDatabase } from '@pgqueue/testing';
import { createTestDatabase as copyOf } from '@pgqueue/testing';
import { inject } from 'vitest';

export type { TestDatabase } from '@pgqueue/testing';

/** A fresh copy of the migrated template, with PostgreSQL's own clock: one per test file, or per test that needs its own. */
export function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl');
  return copyOf({ adminUrl, template: 'pgqueue_template', schema: 'pgqueue', clock: false });
}
