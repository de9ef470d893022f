import { once } from 'node:events';
import type { JobDetails } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { afterEach, expect, test } from 'vitest';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { float } from '../../support/actors/tasks.ts';
import { useDatabase } from '../../support/database.ts';
import { dispatchAll } from '../../support/dispatch-all.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
const { database, operator } = own;
const actors: Actor[] = [];
afterEach(() => Promise.all(actors.splice(0).map((actor) => actor.stop())));

async function start(options = {}): Promise<Actor> {
  const file = new URL('../../support/actors/floater.ts', import.meta.url);
  const actor = await startActor('worker', { url: own.url, name: `floater-${actors.length}`, options, file });
  actors.push(actor);
  return actor;
}

async function enqueue(how: string): Promise<string> {
  const producer = createProducer({ connectionString: own.url, notify: false });
  const { id } = await producer.enqueue(float, { how }, { retry: { base: '1h', backoff: 'fixed' } });
  await producer.close();
  await dispatchAll(database);
  return id;
}

const job = (id: string): Promise<JobDetails> => until(`job ${id} to exist`, () => operator.jobs.get(id));
const reaches = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await job(id)).status === status);
const floated = (actor: Actor): readonly object[] =>
  actor.heard.filter(({ type }) => type === 'job.floating');

test('a rejection that a handler lets go fails its job, not the node; one that comes later, or is handled, fails nothing', async () => {
  const actor = await start();
  const failed = await enqueue('while it runs');
  await reaches(failed, 'delayed');
  expect(await job(failed)).toMatchObject({ tries: 1, crashes: 0, errors: [{ message: 'while it runs' }] });
  expect(floated(actor)).toMatchObject([
    { job: failed, task: 'float', counted: true, error: 'Error: while it runs' },
  ]);
  const late = await enqueue('when it has returned');
  await until('the rejection', () => floated(actor).length === 2);
  await reaches(late, 'done');
  expect(floated(actor)[1]).toMatchObject({ job: late, counted: false });
  const handled = await enqueue('handled late');
  await reaches(handled, 'done');
  expect(await job(handled)).toMatchObject({ result: 'caught: Error: handled late', tries: 0 });
  await reaches(await enqueue('never'), 'done');
  expect(actor.process.exitCode).toBe(null);
});

test("a rejection is the job's that let it go, while others of its batch run", async () => {
  const actor = await start();
  const producer = createProducer({ connectionString: own.url, notify: false });
  const hows = ['never', 'when it has returned', 'for a while'];
  const given = await producer.enqueueMany(hows.map((how) => float.job({ how }, { retry: { base: '1h' } })));
  await producer.close();
  await dispatchAll(database, 'default', hows.length);
  const [before = '', lets = '', running = ''] = given.map(({ id }) => id);
  for (const id of [before, lets, running]) await reaches(id, 'done');
  expect(floated(actor)).toMatchObject([{ job: lets, counted: false, error: 'Error: when it has returned' }]);
  expect(await job(running)).toMatchObject({ result: 'well', tries: 0 });
});

test('a rejection that comes when its worker has stopped ends nothing either; further workers add no listener', async () => {
  const actor = await start();
  const left = await enqueue('when its worker has stopped');
  await reaches(left, 'done');
  actor.tell('outlive');
  await until('the process to outlive its worker', () => actor.heard.some(({ type }) => type === 'outlived'));
  expect(actor.heard.find(({ type }) => type === 'outlived')).toMatchObject({ listeners: 1 });
  expect(floated(actor)).toMatchObject([{ job: left, counted: false }]);
  actor.tell('finish'); // its own still ends it
  await once(actor.process, 'exit');
  expect(actor.process.exitCode).toBe(1);
});

test("a rejection of the program's own ends the process, as without a worker", async () => {
  const actor = await start();
  actor.tell('finish');
  await once(actor.process, 'exit');
  expect(actor.process.exitCode).toBe(1);
});

test('floatingRejections: crash leaves it to Node', async () => {
  const actor = await start({ floatingRejections: 'crash' });
  await enqueue('while it runs');
  if (actor.process.exitCode === null) await once(actor.process, 'exit');
  expect(actor.process.exitCode).toBe(1);
});
