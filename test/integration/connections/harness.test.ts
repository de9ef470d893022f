import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';

test('a test database is a migrated copy, and goes away', async () => {
  const database = await createTestDatabase();
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query(`SELECT current_setting('server_version_num')::int AS num`);
  await client.end();
  await database.drop();
  expect(Math.floor(rows[0].num / 10_000)).toBe(inject('serverMajor'));
});

test('a leaked connection fails the drop', async () => {
  const database = await createTestDatabase();
  const client = new pg.Client({ connectionString: database.url, application_name: 'leaky' });
  client.on('error', () => undefined);
  await client.connect();
  await expect(database.drop()).rejects.toThrow(/leaked[\s\S]*leaky/);
  await client.end();
});
