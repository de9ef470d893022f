import type { Database, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { TestDatabase } from '@pgqueue/testing';
import { createTestDatabase as copyOf } from '@pgqueue/testing';
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest';
import type { Seed } from './seed.ts';
import { seedOf } from './seed.ts';

export type { TestDatabase } from '@pgqueue/testing';

/** A fresh copy of the migrated template, with PostgreSQL's own clock: one per test file, or per test that needs its own. */
export function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl');
  return copyOf({ adminUrl, template: 'pgqueue_template', schema: 'pgqueue', clock: false });
}

/** Opens something before a file's tests, or before each of them, and closes it after them. The answer stands for it meanwhile. */
export function opened<Thing extends { readonly close: () => Promise<void> }>(
  open: () => Thing | Promise<Thing>,
  { each = false } = {},
): Thing {
  let thing: Thing;
  (each ? beforeEach : beforeAll)(async () => {
    thing = await open();
  });
  (each ? afterEach : afterAll)(() => thing.close());
  return later(() => thing);
}

/** Stands for an object that is there only when a test runs, and can be looked through like it. */
function later<Thing extends object>(get: () => Thing): Thing {
  return new Proxy({} as Thing, {
    get: (_, name) => Reflect.get(get(), name) as unknown,
    has: (_, name) => Reflect.has(get(), name),
    ownKeys: () => Reflect.ownKeys(get()),
    getOwnPropertyDescriptor: (_, name) => {
      const found = Reflect.getOwnPropertyDescriptor(get(), name);
      return found && { ...found, configurable: true };
    },
  });
}

/** A file's own database, and what looks at it and fills it. */
export interface OwnDatabase extends Seed {
  readonly url: string;
  readonly test: TestDatabase;
  readonly database: Database;
  readonly operator: Operator;
}

/** Gives a file a database of its own, or each of its tests. All but `url` can be taken apart before the tests. */
export function useDatabase({ connectionsMax = 4, each = false } = {}): OwnDatabase {
  const own = opened(
    async () => {
      const test = await createTestDatabase();
      const database = openDatabase({ connectionString: test.url, connectionsMax });
      const operator = createOperator({ pool: database.pool });
      const close = async (): Promise<void> => {
        for (const part of [operator, database]) await part.close();
        await test.drop();
      };
      return { test, database, operator, close };
    },
    { each },
  );
  return {
    ...seedOf(() => own.database),
    test: later(() => own.test),
    database: later(() => own.database),
    operator: later(() => own.operator),
    get url() {
      return own.test.url;
    },
  };
}
