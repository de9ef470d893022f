import type { Queue, QueueOptions, TaskHandler } from 'pgqueue';
import { createQueue, defineTask, implement } from 'pgqueue';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const greet = defineTask({ name: 'greet', payload: z.object({ name: z.string() }) });

let database: TestDatabase;
const queues: Queue[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await Promise.all(queues.splice(0).map((queue) => queue.stop()));
  await database.drop();
});

function open(options: Partial<QueueOptions> = {}): Queue {
  const queue = createQueue({ connectionString: database.url, ...options });
  queues.push(queue);
  return queue;
}

function greeting(): { readonly tasks: readonly TaskHandler[]; readonly greeted: string[] } {
  const greeted: string[] = [];
  return { greeted, tasks: [implement(greet, ({ name }) => void greeted.push(name))] };
}

test('one call brings the schema, leads, runs a job, explains it, and is stopped by another', async () => {
  const { tasks, greeted } = greeting();
  const queue = open({ tasks, schema: 'door', concurrency: 3 });
  await Promise.all([queue.start(), queue.start()]);
  const { id } = await queue.enqueue(greet, { name: 'Ada' });
  await until('the handler', () => greeted.length === 1);
  await until('its end', async () => (await queue.operator.explain(id)).job.status === 'done');
  expect({ leads: queue.leads, greeted }).toEqual({ leads: true, greeted: ['Ada'] });
  expect((await queue.operator.nodes.list()).map((node) => [node.id, node.slots])).toEqual([[queue.node, 3]]);
  await queue.stop();
  await queue.ended;
  await expect(queue.enqueue(greet, { name: 'late' })).rejects.toThrow('this producer was closed');
});

test('of two processes one leads, both work, and a third that has no tasks enqueues for them', async () => {
  const first = greeting();
  const second = greeting();
  const [one, two, three] = [
    open({ tasks: first.tasks, concurrency: 1 }),
    open({ tasks: second.tasks, concurrency: 1 }),
    open(),
  ];
  await Promise.all([one, two, three].map((queue) => queue.start()));
  expect([one, two, three].filter(({ leads }) => leads)).toHaveLength(1);
  expect(three.node).toBeUndefined();
  await three.enqueueMany(Array.from({ length: 500 }, (_, n) => greet.job({ name: `${n}` })));
  await until('all of them', () => first.greeted.length + second.greeted.length === 500);
  expect([first.greeted.length > 0, second.greeted.length > 0]).toEqual([true, true]);
});

test('a job of a transaction that is rolled back never runs; one of a transaction that commits does', async () => {
  const { tasks, greeted } = greeting();
  const queue = open({ tasks });
  await queue.start();
  const app = new pg.Client({ connectionString: database.url });
  await app.connect();
  try {
    for (const [name, end] of [
      ['nobody', 'rollback'],
      ['Ada', 'commit'],
    ] as const) {
      await app.query('begin');
      await queue.with(app).enqueue(greet, { name });
      await app.query(end);
    }
  } finally {
    await app.end();
  }
  await until('the second', () => greeted.length === 1);
  expect(greeted).toEqual(['Ada']);
});

test('everything that is wrong is said at once, before any I/O', () => {
  const wrong: object = { connectionString: 'mysql://db', tasks: ['greet'], concurrency: 0, polcy: null };
  const make = (): Queue => createQueue({ connectionString: '', ...wrong });
  for (const problem of ['connectionString', 'tasks[0]', 'concurrency', 'polcy'])
    expect(make).toThrow(problem);
  expect(() => createQueue({} as QueueOptions)).toThrow('connectionString');
});

test('a policy that is none, and two handlers of one task, are refused, too', () => {
  const handler = implement(greet, () => {});
  expect(() => createQueue({ connectionString: database.url, policy: {} as never })).toThrow('policy');
  expect(() => createQueue({ connectionString: database.url, tasks: [handler, handler] })).toThrow(
    'task greet has more than one handler',
  );
});

test('a start that fails leaves nothing behind, and a queue that was stopped starts no more', async () => {
  const queue = open({ migrate: false, schema: 'absent', tasks: greeting().tasks });
  await expect(queue.start()).rejects.toMatchObject({ code: 'schema_version' });
  await expect(queue.start()).rejects.toMatchObject({ code: 'schema_version' });
  const stopped = open();
  await stopped.stop();
  await expect(stopped.start()).rejects.toThrow('this queue was stopped; make another one');
});
