// Odd values from plain SQL or from manual changes of the tables: they must harm no other job.
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
beforeEach(() => ground.reset());

test.each([
  ['run_after', 'infinity'],
  ['run_after', '-infinity'],
  ['expires_at', 'infinity'],
  ['expires_at', '-infinity'],
  ['created', 'infinity'],
])('a job with %s %s is refused: no sweep could count the time until it', async (column, value) => {
  await expect(
    ground.sql(`insert into pgqueue.queue (task, ${column}) values ('hello', '${value}')`),
  ).rejects.toMatchObject({ code: '23514' });
});

test('a batch with a job that is none is refused: no tick could count it', async () => {
  const insert = ground.sql(
    `insert into pgqueue.work_queue (jobs, version, pool, task) values (array[gen_random_uuid(), null], 1, 'default', 'hello')`,
  );
  await expect(insert).rejects.toMatchObject({ code: '23514', constraint: 'work_queue_jobs' });
});

test('work items whose jobs are gone, or have expired, do not take the place of those that can run', async () => {
  const node = await ground.node();
  const ids: string[] = [];
  for (let n = 0; n < 6; n += 1) ids.push(await ground.insert());
  await ground.dispatch(ids);
  await ground.sql('delete from pgqueue.queue where id = any ($1::uuid[])', [ids.slice(0, 2)]);
  await ground.sql(`update pgqueue.queue set expires_at = now() - interval '1 second' where id = $1`, [
    ids[2],
  ]);
  const claimed = await ground.claim(node, 3);
  expect(claimed.map(({ id }) => id)).toEqual(ids.slice(3));
});

test('columns that somebody has added keep no job from dying by a crash, or from being set aside', async () => {
  const node = await ground.node();
  await ground.sql(`alter table pgqueue.queue add started text, add reason text, add position text`);
  await ground.sql(`alter table pgqueue.dead_letter add note text not null default 'theirs'`);
  const crashed = await ground.running(node, { max_crashes: 1 });
  const aside = await ground.insert();
  await ground.sql('select pgqueue.reset_node($1)', [node.id]);
  await ground.sql(`select pgqueue.set_aside($1, 'odd')`, [aside]);
  const dead = await ground.sql('select id, reason, note from pgqueue.dead_letter order by reason');
  expect(dead).toEqual([
    { id: crashed.id, reason: 'crash_limit', note: 'theirs' },
    { id: aside, reason: 'gave_up', note: 'theirs' },
  ]);
});
