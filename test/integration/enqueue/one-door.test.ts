import type { Queue, QueueOptions, TaskHandler } from 'pgqueue';
import { createQueue, defineTask, implement } from 'pgqueue';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const greet = defineTask({ name: 'greet', payload: z.object({ name: z.string() }) });

const database = useDatabase({ each: true });
const queues: Queue[] = [];
afterEach(() => Promise.all(queues.splice(0).map((queue) => queue.stop())));

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
  expect(greeted).toEqual(['Ada']);
  await until('it to lead', () => queue.leads);
  expect((await queue.operator.nodes.list()).map((node) => [node.id, node.slots])).toEqual([[queue.node, 3]]);
  await queue.stop();
  await queue.ended;
  await expect(queue.enqueue(greet, { name: 'late' })).rejects.toThrow('this producer was closed');
});

test('of two processes one leads, both work, and a third that has no tasks enqueues for them', async () => {
  // no job ends before both have begun one
  const [working, both] = [new Set<number>(), Promise.withResolvers<undefined>()];
  let greeted = 0;
  const workers = [1, 2].map((n) => {
    const handler = implement(greet, async () => {
      if (working.add(n).size === 2) both.resolve(undefined);
      await both.promise;
      greeted += 1;
    });
    return open({ tasks: [handler], concurrency: 1 });
  });
  const third = open();
  const all = [...workers, third];
  await Promise.all(all.map((queue) => queue.start()));
  await until('one to lead', () => all.filter(({ leads }) => leads).length === 1);
  expect(third.node).toBeUndefined();
  await third.enqueueMany(Array.from({ length: 500 }, (_, n) => greet.job({ name: `${n}` })));
  await until('all of them', () => greeted === 500);
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

test('a stop waits for running jobs no longer than it was told, and gives them back', async () => {
  let running = false;
  const stays = implement(greet, async (_payload, { signal }) => {
    running = true;
    await new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  });
  const queue = open({ tasks: [stays], drainMs: 0 });
  await queue.start();
  const { id } = await queue.enqueue(greet, { name: 'Ada' });
  await until('it to run', () => running);
  const beganAt = Date.now();
  await queue.stop();
  expect(Date.now() - beganAt).toBeLessThan(29_000);
  const [row] = await database.sql('select status, tries, crashes from pgqueue.job where id = $1', [id]);
  expect(row).toEqual({ status: 'ready', tries: 0, crashes: 0 });
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
  const ran = open({ tasks: greeting().tasks });
  await ran.start();
  await ran.stop();
  await expect(ran.start()).rejects.toThrow('this queue was stopped; make another one');
});

test('a stop while it starts ends the start, too: a signal that comes early is no error', async () => {
  const queue = open({ tasks: greeting().tasks, health: { port: 0 } });
  const starting = queue.start(); // it migrates
  await queue.stop();
  await expect(starting).resolves.toBeUndefined();
  await expect(queue.start()).rejects.toThrow('this queue was stopped; make another one');
});
