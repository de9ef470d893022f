import type { Database, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Installation, Router, RouterOptions } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import { afterEach } from 'vitest';
import { createTestDatabase, opened } from '../../support/database.ts';

/** Databases with numbers, and what looks at each. */
export interface Several {
  readonly installations: readonly Installation[];
  readonly databases: readonly Database[];
  readonly operators: readonly Operator[];
  readonly close: () => Promise<void>;
}

/** Makes installations with the numbers 1, 2 and so on, named `one`, `two` and so on. */
export async function createSeveral(count: number): Promise<Several> {
  const tests = await Promise.all(Array.from({ length: count }, () => createTestDatabase()));
  const installations = tests.map(({ url }, index) => ({
    number: index + 1,
    name: names[index] ?? '',
    connectionString: url,
  }));
  const databases = tests.map(({ url }) => openDatabase({ connectionString: url, connectionsMax: 2 }));
  const operators = databases.map(({ pool }) => createOperator({ pool }));
  for (const [index, { number, name }] of installations.entries())
    await operators[index]?.installation.init({ number, name });
  const close = async (): Promise<void> => {
    await Promise.all(databases.map((database) => database.close()));
    await Promise.all(tests.map((test) => test.drop()));
  };
  return { installations, databases, operators, close };
}

const names = ['one', 'two', 'three', 'four'];

/** Gives each test of a file installations of its own, and a router of them. */
export function useSeveral(
  count: number,
  options: Partial<RouterOptions> = {},
): { readonly several: Several; readonly router: Router } {
  const several = opened(() => createSeveral(count), { each: true });
  const router = opened(() => createRouter({ installations: several.installations, ...options }), {
    each: true,
  });
  return { several, router };
}

/** Stops what a test has started, after each of them, and starts schedulers. */
export function useRunning(several: Several): {
  /** Add what is to be stopped. */
  readonly running: { readonly stop: () => Promise<void> }[];
  /** Starts schedulers of the installations with these numbers. */
  readonly schedule: (...numbers: readonly number[]) => Promise<void>;
} {
  const running: { readonly stop: () => Promise<void> }[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((one) => one.stop()));
  });
  const schedule = async (...numbers: readonly number[]): Promise<void> => {
    for (const { number, connectionString } of several.installations) {
      if (!numbers.includes(number)) continue;
      const scheduler = createScheduler({ connectionString });
      running.push(scheduler);
      await scheduler.start();
    }
  };
  return { running, schedule };
}

/** Number of jobs that wait in each installation. */
export async function waitingIn({ databases }: Several): Promise<readonly number[]> {
  return Promise.all(
    databases.map(async (database) => (await database.query('select from pgqueue.queue', [])).length),
  );
}

/** Returns one of a list; fails if it has too few. */
export function nth<Item>(list: readonly Item[], index: number): Item {
  const found = list[index];
  if (found === undefined) throw new Error(`there is no ${index} in a list of ${list.length}`);
  return found;
}

/** Inserts a job as plain SQL does; resolves to its id. */
export async function insertJob(
  database: Database,
  { key = '', id }: { readonly key?: string; readonly id?: string } = {},
): Promise<string> {
  const [row] = await database.query<{ readonly id: string }>(
    `insert into pgqueue.queue (id, task, key, payload)
     values (coalesce($2::text::uuid, pgqueue.uuid_v7()), 'hello', $1, '{}') returning id`,
    [key, id ?? null],
  );
  return row?.id ?? '';
}
