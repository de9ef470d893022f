import { afterEach, beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';
import { crashed, ready } from './suspects-support.ts';

/** Claims of suspects beside other claims. */
const ground = opened(openGround);
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

const claimOf = ({ id, incarnation }: Member): string =>
  `select id from pgqueue.claim('${id}', '${incarnation}', 10)`;

test('two nodes share out two suspects, and neither waits for the other', async () => {
  const [one, two] = await crashed(ground, 2);
  const [a, b] = [await ground.node('a'), await ground.node('b')];
  const [first, second] = [await ground.session(), await ground.session()];
  await first.sql('begin');
  expect(await first.sql(claimOf(a))).toEqual([{ id: one }]);
  expect(await second.sql(claimOf(b))).toEqual([{ id: two }]);
  await first.sql('commit');
  await Promise.all([first.end(), second.end()]);
});

test('two claims of one node at the same time take one suspect, and do not wait for each other', async () => {
  const [one, two] = await crashed(ground, 2);
  const node = await ground.node();
  const [first, second] = [await ground.session(), await ground.session()];
  await first.sql('begin');
  expect(await first.sql(claimOf(node))).toEqual([{ id: one }]);
  const other = await ready(ground);
  expect(await second.sql(claimOf(node))).toEqual([{ id: other }]);
  await first.sql('commit');
  expect(await second.sql(claimOf(node))).toEqual([]);
  expect(await ground.job(String(two))).toMatchObject({ status: 'ready' });
  await Promise.all([first.end(), second.end()]);
});

test('a reset during the claim of a suspect waits, and charges it', async () => {
  const [suspect] = await crashed(ground, 1);
  const other = await ready(ground);
  const node = await ground.node();
  const [first, second] = [await ground.session(), await ground.session()];
  await first.sql('begin');
  expect(await first.sql(claimOf(node))).toEqual([{ id: suspect }, { id: other }]);
  const { answer } = await ground.waiting(second, `select job_id from pgqueue.reset_node('node')`);
  await first.sql('commit');
  expect(await answer).toHaveLength(2);
  expect(await ground.job(String(suspect))).toMatchObject({ status: 'ready', crashes: 2 });
  expect(await ground.job(other)).toMatchObject({ status: 'ready', crashes: 0 });
  await Promise.all([first.end(), second.end()]);
});
