// Checks that stored data is bounded by the data sent: nothing that a producer or a worker may write makes a
// claim or a tick fail, or large.
import { setFeed } from '@pgqueue/postgres/internal';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { batchesOn } from './batches-support.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
beforeEach(() => ground.reset());

const refused = (constraint: string): object => ({ code: '23514', constraint });

describe('values that come compressed from another table', () => {
  beforeAll(async () => {
    await ground.sql('create table public.outbox (small jsonb, deep jsonb, large jsonb)');
    await ground.sql(`insert into public.outbox values (
      '{"a": 1}', ('{"a":' || repeat('[', 4900) || repeat(']', 4900) || '}')::jsonb, jsonb_build_object('a', repeat('x', 20000000)))`);
  });

  test('count by their text', async () => {
    const insert = (column: string, from: string): Promise<unknown> =>
      ground.sql(`insert into pgqueue.queue (task, ${column}) select 't', ${from} from public.outbox`);
    await expect(insert('payload', 'large')).rejects.toMatchObject(refused('queue_payload_size'));
    await expect(insert('payload', 'deep')).rejects.toMatchObject(refused('queue_payload_size'));
    await expect(insert('attributes', 'deep')).rejects.toMatchObject(refused('queue_attributes_check'));
    await expect(insert('attributes', 'large')).rejects.toMatchObject(refused('queue_attributes_size'));
    await expect(insert('trace', 'deep')).rejects.toMatchObject(refused('queue_trace_size'));
    await expect(insert('payload', 'small')).resolves.toEqual([]);
  });
});

test('a task and a unique key of the longest characters fit into the index, or are refused', async () => {
  const wide = (length: number): string => '\u{1f600}'.repeat(length);
  await ground.insert({ task: wide(150), unique_key: wide(500) });
  await expect(ground.insert({ task: wide(200), unique_key: wide(500) })).rejects.toMatchObject(
    refused('queue_unique_key_check'),
  );
});

test('a lease is as long as its timeout in seconds, whatever months and days it is written in', async () => {
  const node = await ground.node();
  const id = await ground.insert({ timeout: '1 month -28 days -12 hours' });
  await ground.dispatch([id]);
  const [job] = await ground.claim(node, 1);
  expect(job).toMatchObject({ id, leaseMs: 1.5 * 86_400_000 });
});

test('one claim sends at most 32 MiB, the first jobs first; the next one goes on', async () => {
  const node = await ground.node();
  const ids: string[] = [];
  for (let n = 0; n < 100; n += 1)
    ids.push(await ground.insert({ payload: JSON.stringify('x'.repeat(390_000)) }));
  await ground.dispatch(ids);
  const first = await ground.claim(node, 100);
  expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 87));
  const next = await ground.claim(node, 100);
  expect(next.map(({ id }) => id)).toEqual(ids.slice(87));
});

describe('a registration that can not be read is refused', () => {
  const register = (tasks: string, more = ''): Promise<unknown> =>
    ground.sql(`select * from pgqueue.register_node('n', $1::jsonb${more})`, [tasks]);

  test.each([
    'null',
    '[]',
    '1',
    '{"mail": null}',
    '{"mail": []}',
    '{"mail": {}}',
    '{"mail": {"min": 1}}',
    '{"mail": {"min": "1", "max": "2"}}',
    '{"mail": {"min": 0, "max": 1}}',
    '{"mail": {"min": 2, "max": 1}}',
    '{"mail": {"min": 1.5, "max": 2}}',
    '{"mail": {"min": 1, "max": 1e131071}}',
    '{"mail": {"min": 1, "max": 1, "timeoutMs": 0}}',
    '{"mail": {"min": 1, "max": 1, "timeoutMs": "1"}}',
    '{"mail": {"min": 1, "max": 1, "timeoutMs": 1e300}}',
  ])('%s', async (tasks) => {
    await expect(register(tasks)).rejects.toMatchObject(refused('node_tasks_check'));
    expect(await ground.sql('select from pgqueue.node')).toEqual([]);
  });

  test('as text it is at most 256 KiB', async () => {
    const bomb = '{"mail": {"min": 1, "max": 1, "more": [1e131071, 1e131071]}}';
    await expect(register(bomb)).rejects.toMatchObject(refused('node_tasks_size'));
  });

  test('a node is lost after a day at most', async () => {
    await expect(register('{}', ', p_lost_after_ms => 86400001')).rejects.toMatchObject(
      refused('node_lost_after_ms_check'),
    );
    await expect(register('{}', ', p_heartbeat_ms => 2147483647')).rejects.toMatchObject({ code: '23514' });
    await register(
      '{"mail": {"min": 1, "max": 2147483647, "timeoutMs": null}}',
      ', p_lost_after_ms => 86400000',
    );
  });
});

test('versions of tasks are numbers, however they are written', async () => {
  const node = await ground.node();
  await ground.sql(`update pgqueue.node set tasks = '{"hello": {"min": 1.0, "max": 2.00}}'`);
  const id = await ground.insert();
  await ground.dispatch([id]);
  expect(await ground.one(`select pgqueue.wait_facts($1, 10) is not null`, [id])).toBe(true);
  expect(await ground.claim(node, 1)).toMatchObject([{ id }]);
});

test('what a running job says of itself, and keeps, is bounded by its text', async () => {
  const node = await ground.node();
  const id = await ground.insert();
  await ground.dispatch([id]);
  const [job] = await ground.claim(node, 1);
  const call = (name: string, value: string): Promise<unknown> =>
    ground.sql(`select pgqueue.${name}($1, $2, $3::jsonb)`, [id, job?.token, value]);
  const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
  for (const value of ['1e131071', deep]) {
    await expect(call('report_progress', value)).rejects.toMatchObject({ code: '22023' });
    await expect(call('save_checkpoint', `[${value},${value},${value}]`)).rejects.toMatchObject({
      code: '22023',
    });
  }
  await expect(
    ground.sql(
      `insert into pgqueue.schedule (name, cron, task, payload) values ('s', '* * * * *', 't', '[1e131071,1e131071,1e131071]')`,
    ),
  ).rejects.toMatchObject(refused('schedule_payload_size'));
});

test('run times that a node tells of a batch are bounded before schedulers hear of them', async () => {
  await setFeed(ground.database, ground.leader(), true);
  const { position, token } = await batchesOn(ground).held(await ground.node(), 5);
  await ground.sql(
    `select pgqueue.settle_rows(array[$1::bigint], array[$2::uuid], '{5}', '{NaN,Infinity,-Infinity,-1,2}')`,
    [position, token],
  );
  expect(await ground.one('select busy_ms from pgqueue.settlement')).toEqual([3.2e11, 3.2e11, 0, 0, 2]);
});
