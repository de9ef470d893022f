import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createProducer } from '@pgqueue/producer';
import { afterAll, afterEach, expect, test } from 'vitest';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { hold, spin } from '../../support/actors/tasks.ts';
import { opened, useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-spin-'));
const own = useDatabase({ each: true });
const { database } = own;
const producer = opened(() => createProducer({ connectionString: own.url }), { each: true });
const actors: Actor[] = [];
afterEach(() => Promise.all(actors.splice(0).map((actor) => actor.stop())));
afterAll(() => rmSync(folder, { recursive: true }));

async function start(kind: 'scheduler' | 'worker', name: string, options = {}): Promise<Actor> {
  const actor = await startActor(kind, { url: own.url, name, options });
  actors.push(actor);
  return actor;
}
const tells = ['job.settled', 'node.blocked'];
const node = { heartbeatMs: 200, lostAfterMs: 3_000, blockedMs: 300, holds: true, tells };

const rows = (text: string): Promise<readonly Record<string, unknown>[]> => database.query(text, []);
const heard = (actor: Actor, type: string): Actor['heard'] =>
  actor.heard.filter((said) => said.type === type);

/** Node a holds two jobs with timeouts of an hour; then a handler keeps its event loop, past its own timeout of 1 s. */
async function blocked(options: object) {
  await start('scheduler', 'scheduler');
  const file = join(folder, own.test.name);
  const a = await start('worker', 'a', { ...node, spinsUntil: file, ...options });
  await producer.enqueueMany([1, 2].map((n) => hold.job({ n })));
  await until('both to be held', () => heard(a, 'started').length === 2);
  const { id } = await producer.enqueue(spin, {});
  await until('it to spin', () => heard(a, 'spinning').length === 1);
  const b = await start('worker', 'b', node);
  return { a, b, id, letGo: () => writeFileSync(file, '') };
}

test('a handler that keeps the event loop loses its own job alone, and is named', async () => {
  const { a, b, id, letGo } = await blocked({ lostAfterMs: 60_000 });
  await until('the hung job to be done elsewhere', () => heard(b, 'job.settled').length === 1);
  expect(heard(a, 'job.settled')).toEqual([]);
  expect(await rows(`select id, node, tries, crashes from pgqueue.history`)).toEqual([
    { id, node: 'b', tries: 0, crashes: 1 },
  ]);
  const beats = new Set<unknown>();
  await until('five heartbeats of the blocked node', async () => {
    const [row] = await rows(`select heartbeat::text as beat from pgqueue.node where id = 'a'`);
    return beats.add(row?.['beat']).size > 5;
  });
  expect(heard(a, 'node.blocked'), 'the loop is blocked still').toEqual([]);
  letGo();
  await until('the loop to be free', () => heard(a, 'node.blocked').length === 1);
  const [event] = heard(a, 'node.blocked');
  expect(event).toMatchObject({ jobs: [{ job: id, task: 'spin' }] });
  expect(Number(event?.['blockedMs'])).toBeGreaterThan(1_000); // the job's own timeout
  await until('the late settle to be refused', () => heard(a, 'job.stale').length === 1);
  expect(heard(a, 'job.stale')).toMatchObject([{ job: id }]);
  a.tell('finish');
  await until('the others to be done', () => heard(a, 'job.settled').length === 2);
  expect(await rows(`select node, tries, crashes from pgqueue.history where task = 'hold'`)).toEqual([
    { node: 'a', tries: 0, crashes: 0 },
    { node: 'a', tries: 0, crashes: 0 },
  ]);
  expect(heard(a, 'node.registered')).toHaveLength(1);
  expect(heard(a, 'node.ended')).toEqual([]);
  expect(heard(b, 'started')).toEqual([]);
});

test('with heartbeats from the event loop, it loses the node and all that the node holds', async () => {
  const { a, b, letGo } = await blocked({ heartbeatThread: false });
  await until('the held jobs to begin elsewhere', () => heard(b, 'started').length > 0);
  expect(await rows(`select crashes from pgqueue.queue where task = 'hold'`)).toEqual([
    { crashes: 1 },
    { crashes: 1 },
  ]);
  expect(await rows(`select distinct state from pgqueue.node where id = 'a'`)).toEqual([{ state: 'lost' }]);
  letGo();
  await until('it to notice', () => heard(a, 'node.ended').length === 1);
  b.tell('finish');
});
