import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { browse, openDashboardBench } from './support.ts';

const bench = opened(() => openDashboardBench('dashboard_odd_rows_test'));

/** Errors as programs in any language may settle with, and the message that is kept of each. */
const errors: readonly (readonly [data: string, message: string])[] = [
  ['404', '404'],
  ['["a", 1]', '["a", 1]'],
  ['null', ''],
  ['{}', ''],
  ['{"message": null}', ''],
  ['{"message": {"toString": 1}, "name": []}', '{"toString": 1}'],
];

test('an error without a text gets one, and rows of the owner that have none are shown, too', async () => {
  const ids = await bench.insert({}, errors.length);
  const leases = new Map((await bench.claim('node-1', 10)).map(({ id, token }) => [id, token]));
  const tokens = ids.map((id) => leases.get(id));
  await bench.sql(
    `select * from $schema.settle($1::uuid[], $2::uuid[], array_fill('dead'::text, array[$4::integer]), array_fill(0::float8, array[$4::integer]), $3::text[])`,
    [ids, tokens, errors.map(([data]) => data), errors.length],
  );
  const kept = await bench.sql<{ readonly message: unknown }>(
    `select d.errors -> -1 -> 'message' as message from unnest($1::uuid[]) with ordinality as x (id, n) join $schema.dead_letter d using (id) order by x.n`,
    [ids],
  );
  expect(kept.map(({ message }) => message)).toEqual(errors.map(([, message]) => message));

  const viewer = browse(bench.dashboard(), 'vera:viewer');
  const answers = async (paths: readonly string[]): Promise<unknown> =>
    Promise.all(paths.map(async (path) => [path, (await viewer.get(`/api/${path}`)).status]));
  const paths = ['dead', 'dead/groups', ...ids.flatMap((id) => [`jobs/${id}`, `jobs/${id}/explain`])];
  const well = paths.map((path) => [path, 200]);
  expect(await answers(paths)).toEqual(well);
  await bench.sql(
    `update $schema.dead_letter d set errors = jsonb_build_array(x.data::jsonb) from unnest($1::uuid[], $2::text[]) as x (id, data) where d.id = x.id`,
    [ids, errors.map(([data]) => data)],
  );
  expect(await answers(paths)).toEqual(well);
});

test('so are tasks of a node that say nothing, and infinite times', async () => {
  const [ended] = await bench.insert();
  await bench.sql('select * from $schema.cancel(array[$1::uuid])', [ended]);
  await bench.sql(`update $schema.history set created = 'infinity' where id = $1`, [ended]);
  await bench.sql(
    `insert into $schema.node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
     values ('odd', gen_random_uuid(), 'left', 1, '{"x": {"min": 1, "max": 1}, "y": null}', clock_timestamp(), 5000, 30000, clock_timestamp())`,
  );
  const operator = browse(bench.dashboard(), 'otto:operator');
  const { body } = await operator.get<{ readonly items: readonly unknown[] }>('/api/jobs?status=cancelled');
  expect(body.items).toMatchObject([{ id: ended, created: null }]);
  expect((await operator.get(`/api/jobs/${ended}`)).status).toBe(200);
  const nodes = await operator.get<{ readonly nodes: readonly unknown[] }>('/api/nodes?name=odd');
  expect(nodes.body.nodes).toMatchObject([{ id: 'odd', tasks: [{ task: 'x' }] }]);
});
