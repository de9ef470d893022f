// Tests that need a server of their own: passwords that change, and an encoding that lacks characters.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loggedError } from '@pgqueue/core/internal';
import { openDatabase } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startEmbedded } from '../../../packages/postgres/src/testing/server-local.ts';
import { until } from '../../support/until.ts';

let server: Awaited<ReturnType<typeof startEmbedded>>;
let admin: pg.Client;
const folder = mkdtempSync(join(tmpdir(), 'pgqueue-password-'));
const passwords = join(folder, 'pgpass');
const before = process.env['PGPASSFILE'];

beforeAll(async () => {
  server = await startEmbedded();
  admin = new pg.Client({ connectionString: server.adminUrl });
  await admin.connect();
});
afterAll(async () => {
  if (before === undefined) delete process.env['PGPASSFILE'];
  else process.env['PGPASSFILE'] = before;
  rmSync(folder, { recursive: true });
  await admin.end();
  await server.stop();
});

/** Returns the address of the server, as that user and without a password. */
function addressOf(user: string, database: string): string {
  const url = new URL(server.adminUrl);
  [url.username, url.password, url.pathname] = [user, '', database];
  return url.href;
}

async function endSessions(): Promise<void> {
  await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'`);
}

async function rotate(password: string): Promise<void> {
  await admin.query(`alter role app password '${password}'`);
  writeFileSync(passwords, `*:*:*:app:${password}\n`, { mode: 0o600 });
  await endSessions();
}

test('the file that PGPASSFILE names is read at each connection', async () => {
  const { rows } = await admin.query<{ hba_file: string }>('show hba_file');
  const file = rows[0]?.hba_file ?? '';
  writeFileSync(file, `host all app all scram-sha-256\n${readFileSync(file, 'utf8')}`);
  await admin.query('create role app login');
  await admin.query('select pg_reload_conf()');
  process.env['PGPASSFILE'] = passwords;
  const database = openDatabase({ connectionString: addressOf('app', 'postgres'), onError: () => {} });
  /** Resolves to `true`, or to the code of the error. */
  const answer = (): Promise<unknown> =>
    database.query('select 1', []).then(
      () => true,
      (error: unknown) => (error as { readonly code?: unknown }).code,
    );
  await rotate('first');
  writeFileSync(passwords, '*:*:*:app:wrong\n');
  // until the server has read its rules again, it asks for no password
  await until('the password to be asked for', async () => {
    await endSessions();
    return (await answer()) === '28P01';
  });
  for (const password of ['second', 'third']) {
    await rotate(password);
    await until(`it to connect with the ${password}`, async () => (await answer()) === true);
  }
  expect(await database.query('select current_user::text as name', [])).toEqual([{ name: 'app' }]);
  await database.close();
});

test('a character that the database lacks is logged as the bytes that it has, with the encoding', async () => {
  await admin.query(`create database latin encoding 'LATIN1' locale 'C' template template0`);
  const database = openDatabase({ connectionString: addressOf('postgres', 'latin'), onError: () => {} });
  const error = await database.query('select $1::text', ['€']).catch((failure: unknown) => failure);
  await database.close();
  expect(loggedError(error)).toMatchObject({
    code: '22P05',
    message:
      'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"',
  });
});
