import { defineTask, implement } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createPuller, createWorker } from '@pgqueue/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { until } from '../../support/until.ts';

const tasks = [implement(defineTask({ name: 't', payload: z.object({}) }), () => {})];
/** Nobody listens there. */
const connectionString = 'postgres://localhost:9/app';

const warnings: (Error & { readonly code?: string })[] = [];
const note = (warning: Error): void => void warnings.push(warning);
beforeEach(() => {
  warnings.length = 0;
  process.on('warning', note);
});
afterEach(() => void process.off('warning', note));

const roles = {
  worker: () => createWorker({ connectionString, tasks, node: 'w1' }),
  scheduler: () => createScheduler({ connectionString, name: 'w1' }),
};

test.each(['worker', 'scheduler'] as const)(
  'a %s without an observer says what its start waits for, once, and can be stopped',
  async (role) => {
    const started = roles[role]();
    const starting = started.start().catch(() => {});
    await until('the warning', () => warnings.length > 0);
    await started.stop();
    await starting;
    expect(warnings.map(({ name, code }) => [name, code])).toEqual([['PgQueueWarning', 'PGQUEUE_WAITING']]);
    expect(warnings[0]?.message).toMatch(
      new RegExp(
        `^the ${role} w1 waits for its database: .*ECONNREFUSED.*. It goes on trying until it is stopped$`,
      ),
    );
  },
);

test.each(['not a url', 'mysql://root:hunter2@db/app', ''])(
  'a connection string that is none is refused before any I/O, and not repeated: %j',
  (wrong) => {
    const given = { connectionString: wrong };
    const makes = [
      () => createWorker({ ...given, tasks }),
      () => createPuller({ ...given, tasks: ['t'] }),
      () => createScheduler(given),
      () => createProducer(given),
      () => createOperator(given),
    ];
    for (const make of makes) {
      expect(make).toThrow('connectionString is not a connection string: it looks like postgres://USER@HOST');
      expect(make).not.toThrow(/hunter2|not a url/);
    }
  },
);

test('an environment variable that is not set is found out when a producer is made', async () => {
  const unset = process.env['PGQUEUE_NO_SUCH_VARIABLE'];
  expect(() => createProducer({ connectionString: unset } as { connectionString: string })).toThrow(
    'connectionString is undefined: is its environment variable set?',
  );
  await createProducer({}).close();
});
