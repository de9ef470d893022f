import { invariants } from '@pgqueue/postgres/internal';
import { expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const { insert, sql } = useDatabase();

test('the doctor looks the jobs that wait or are dead up in history, by id: it does not read days of ended ones', async () => {
  for (let job = 0; job < 3; job += 1) await insert();
  await sql(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload)
     select gen_random_uuid(), 'default', 'hello', '', 0, 'done', 0, 0, now(), now(), 1, '{}', '{}' from generate_series(1, 20000)`,
  );
  await sql('analyze pgqueue.queue, pgqueue.dead_letter, pgqueue.history');
  const [{ day }] = await sql('select distinct tableoid::regclass::text as day from pgqueue.history');
  const { find } = invariants.find(({ name }) => name === 'jobs_in_two_places') ?? { find: () => '' };
  const plan = (await sql(`explain ${find('pgqueue')}`)).map((row) => String(row['QUERY PLAN']));
  const partition = String(day).replace('pgqueue.', '');
  expect(plan.filter((line) => line.includes(`Seq Scan on ${partition} `))).toEqual([]);
  expect(plan.filter((line) => line.includes(`${partition}_id_idx`))).not.toEqual([]);
});
