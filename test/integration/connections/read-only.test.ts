import type { Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { reasonText } from '@pgqueue/postgres/internal';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const bench = useDatabase();
const viewer = 'read_only_viewer';
const says = expect.stringMatching(
  /^default_transaction_read_only is on .*: nothing is enqueued, dispatched/,
);

/** Works with sessions that begin with the present defaults. */
async function anew<Result>(work: (operator: Operator) => Promise<Result>, user?: string): Promise<Result> {
  const url = new URL(bench.url);
  if (user !== undefined) [url.username, url.password] = [user, 'secret'];
  const operator = createOperator({ connectionString: url.href, onError: () => {} });
  try {
    return await work(operator);
  } finally {
    await operator.close();
  }
}

beforeAll(async () => {
  await bench.sql(`create role ${viewer} login password 'secret'`);
  await bench.sql(`grant usage on schema pgqueue to ${viewer}`);
  await bench.sql(`grant select on all tables in schema pgqueue to ${viewer}`);
  await bench.sql(`grant execute on all functions in schema pgqueue to ${viewer}`);
});

afterAll(async () => {
  await bench.sql(`drop owned by ${viewer}`);
  await bench.sql(`drop role ${viewer}`);
});

const warnings = async (operator: Operator): Promise<readonly unknown[]> =>
  (await operator.status()).warnings.map(({ kind, message }) => [kind, message]);

test('a database that only reads: status, explain and doctor say so first, and of no missing leader', async () => {
  const id = await bench.insert();
  await bench.sql(`alter database ${bench.test.name} set default_transaction_read_only = on`);
  try {
    for (const user of [undefined, viewer]) {
      await anew(async (operator) => {
        expect(await warnings(operator)).toEqual([
          ['read_only', says],
          ['no_capable_node', expect.any(String)],
        ]);
        const { reasons } = await operator.explain(id);
        expect(reasons.map((reason) => [reason.kind, reasonText(reason, String)])).toEqual([
          ['read_only', says],
          ['no_capable_node', expect.any(String)],
          ['in_line', expect.any(String)],
        ]);
        const { findings, healthy } = await operator.doctor();
        expect(healthy).toBe(false);
        expect(findings[0]).toMatchObject({ check: 'read_only', severity: 'error', samples: [says] });
      }, user);
    }
  } finally {
    await bench.sql('set default_transaction_read_only = off');
    await bench.sql(`alter database ${bench.test.name} reset default_transaction_read_only`);
  }
});

test('a user for reading in a database that is written to: nothing to say', async () => {
  await bench.sql(`alter role ${viewer} set default_transaction_read_only = on`);
  await anew(async (operator) => {
    expect((await warnings(operator))[0]).toMatchObject(['no_leader', expect.any(String)]);
    expect((await operator.doctor()).findings.map(({ check }) => check)).not.toContain('read_only');
  }, viewer);
});
