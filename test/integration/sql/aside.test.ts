// One job that can't be processed costs no other its run: rows that are older than a rule, or that a client can't read.
import { randomUUID } from 'node:crypto';
import type { PgQueueEvent } from '@pgqueue/core';
import { expire, promote, reap, resetNode } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createClaims } from '../../../packages/worker/src/claim/claims.ts';
import { opened } from '../../support/database.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

/** Jobs of which the third is older than the rule that it breaks: every update of it fails. */
async function insertSeven(columns: Readonly<Record<string, unknown>> = {}): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1) ids.push(await ground.insert(columns));
  await ground.sql('alter table pgqueue.queue drop constraint queue_check');
  await ground.sql(`update pgqueue.queue set timeout = '300000 years' where id = $1`, [ids[2]]);
  await ground.sql(
    'alter table pgqueue.queue add constraint queue_check check (pgqueue.check_job(queue.*)) not valid',
  );
  return ids;
}

const statuses = (ids: readonly string[]): Promise<readonly unknown[]> =>
  Promise.all(ids.map(async (id) => (await ground.job(id))['status']));
const seven = (others: string): readonly string[] =>
  Array.from({ length: 7 }, (_none, n) => (n === 2 ? 'dead' : others));
const why = (id: string | undefined): Promise<unknown> =>
  ground.one(`select reason || ': ' || (errors -> -1 ->> 'message') from pgqueue.dead_letter where id = $1`, [
    id,
  ]);

test('a lease of any timeout can be taken', async () => {
  const node = await ground.node();
  const ids = await insertSeven();
  await ground.dispatch(ids);
  const claimed = await ground.claim(node, 10);
  expect(claimed.map(({ id }) => id)).toEqual(ids);
  expect(claimed[2]?.leaseMs).toBe(3.2e11);
});

test.each([
  [
    'lease expired',
    async () => {
      await ground.sql(`update pgqueue.work_queue set lock_timeout = now() - interval '1 second'`);
      return reap(ground.database);
    },
    7,
  ],
  ['node lost', () => resetNode(ground.database, 'node'), { ready: 6, dead: 1, cancelled: 0 }],
])('of ended leases (%s) the others are ready again', async (_how, end, answer) => {
  const node = await ground.node('node');
  const ids = await insertSeven();
  await ground.dispatch(ids);
  await ground.claim(node, 10);
  expect(await end()).toEqual(answer);
  expect(await statuses(ids)).toEqual(seven('ready'));
  expect(await why(ids[2])).toMatch(/^gave_up: it can't be processed: .*queue_timeout_check/);
});

test('of delayed jobs that are due the others become pending', async () => {
  const ids = await insertSeven({ run_after: '2020-01-01' });
  expect(await promote(ground.database, ground.leader(), 100)).toMatchObject({
    promoted: 6,
    nextDueMs: null,
  });
  expect(await statuses(ids)).toEqual(seven('pending'));
  expect(await why(ids[2])).toMatch(/^gave_up: it can't be processed: .*queue_timeout_check/);
});

test('of jobs that were not started in time the others end as expired', async () => {
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1)
    ids.push(await ground.insert({ expires_at: '2020-01-01', key: n === 2 ? 'odd' : '' }));
  await ground.sql(
    `alter table pgqueue.history add constraint history_odd check (outcome <> 'expired' or key <> 'odd')`,
  );
  try {
    expect(await expire(ground.database, ground.leader(), 100)).toBe(6);
    expect(await statuses(ids)).toEqual(seven('expired'));
    expect(await why(ids[2])).toMatch(/^gave_up: it can't be processed: .*history_odd/);
    expect(await expire(ground.database, ground.leader(), 100)).toBe(0);
  } finally {
    await ground.sql('alter table pgqueue.history drop constraint history_odd');
  }
});

test('what fails for all alike is no reason to set a job aside', async () => {
  const ids = await insertSeven({ run_after: '2020-01-01' });
  await ground.sql(
    `create function pgqueue.refuse() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$`,
  );
  await ground.sql(
    'create trigger refuse before update on pgqueue.queue for each row execute function pgqueue.refuse()',
  );
  try {
    await expect(promote(ground.database, ground.leader(), 100)).rejects.toThrow('not today');
    expect(new Set(await statuses(ids))).toEqual(new Set(['delayed']));
  } finally {
    await ground.sql('drop function pgqueue.refuse() cascade');
  }
});

test('of a claim that fails for one job the node gets the others, and that job is dead, with the reason', async () => {
  const node = await ground.node();
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1)
    ids.push(await ground.insert({ payload: JSON.stringify(n === 2 ? '\u6f22' : 'plain') }));
  await ground.dispatch(ids);
  // a client whose encoding has no letter for it
  const client = new pg.Client({ connectionString: ground.test.url });
  await client.connect();
  await client.query(`set client_encoding to 'latin1'`);
  const events: PgQueueEvent[] = [];
  const tokens = new Set<string>([randomUUID()]);
  const claims = createClaims({
    database: {
      schema: 'pgqueue',
      query: async <Row>(text: string, values?: readonly unknown[]) =>
        (await client.query(text, values === undefined ? [] : [...values])).rows as readonly Row[],
    },
    node: node.id,
    incarnation: () => node.incarnation,
    ended: () => {},
    tokens,
    observe: (event) => events.push(event),
  });
  try {
    const { rows } = await claims({ max: 10, ahead: 0, from: 0, whole: true });
    const jobs = rows.flatMap((row) => row.jobs);
    expect(jobs.map(({ id }) => id)).toEqual(ids.filter((_id, n) => n !== 2));
    expect(new Set(jobs.map(({ payload, leaseMs }) => `${String(payload)} ${leaseMs}`))).toEqual(
      new Set(['plain 60000']),
    );
    expect(await statuses(ids)).toEqual(seven('running'));
    expect(await why(ids[2])).toMatch(/^gave_up: it can't be read: /);
    expect(events).toMatchObject([{ type: 'database.error', during: 'claim' }]);
  } finally {
    await client.end();
  }
});
