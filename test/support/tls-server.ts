import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { migrate } from '@pgqueue/postgres';
import pg from 'pg';
import { inject } from 'vitest';
import {
  debianServer,
  startDebian,
  startEmbedded,
} from '../../packages/postgres/src/testing/server-local.ts';
import { until } from './until.ts';

/** A server of its own that speaks TLS, with certificates made here. */
export interface TlsServer {
  /** Certificates of the authority that signed the server's, and of another one of the same name. */
  readonly ca: string;
  readonly otherCa: string;
  /** Returns a connection string of the migrated database, with these parameters. */
  readonly url: (parameters: Readonly<Record<string, string>>, host?: string) => string;
  /** Makes the server present a certificate of that host, from the next connection on. */
  readonly present: (host: string) => Promise<void>;
  /** Resolves to the application names of sessions, with and without encryption. */
  readonly sessions: () => Promise<{ readonly tls: readonly string[]; readonly plain: readonly string[] }>;
  /** Ends the sessions of that name. */
  readonly end: (application: string) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startTlsServer(): Promise<TlsServer> {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-tls-'));
  // on this machine, whichever server the other tests use: the test writes to its files
  const debian = inject('serverMajor') === 15 && debianServer(15) !== undefined;
  const server = await (debian ? startDebian(15) : startEmbedded());
  const port = new URL(server.adminUrl).port;
  const admin = new pg.Client({ connectionString: server.adminUrl });
  const stop = async (): Promise<void> => {
    await admin.end();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  await admin.connect();
  try {
    const ca = makeAuthority(folder, 'ca');
    const otherCa = makeAuthority(folder, 'other');
    const { rows } = await admin.query<{ data_directory: string }>('show data_directory');
    const data = rows[0]?.data_directory ?? '';
    const present = async (host: string): Promise<void> => {
      const { uid, gid } = statSync(data);
      for (const [name, text] of Object.entries(makeCertificate(folder, ca, host))) {
        const file = join(data, `server.${name}`);
        writeFileSync(file, text, { mode: 0o600 });
        chownSync(file, uid, gid);
      }
      await admin.query('alter system set ssl = on');
      await admin.query('select pg_reload_conf()');
      await until(`the server to be ${host}`, async () => (await presented(port)) === `DNS:${host}`);
    };
    await present('localhost');
    await migrate({ connectionString: server.adminUrl });
    return {
      ca: `${ca}.crt`,
      otherCa: `${otherCa}.crt`,
      url: (parameters, host = 'localhost') => {
        const url = new URL(server.adminUrl);
        url.hostname = host;
        for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
        return url.href;
      },
      present,
      sessions: async () => {
        const found = await admin.query<{ name: string; ssl: boolean }>(
          `select application_name as name, ssl from pg_stat_activity join pg_stat_ssl using (pid)
           -- one that is still being let in has no user, and says nothing of TLS yet
           where backend_type = 'client backend' and usename is not null and pid <> pg_backend_pid()`,
        );
        const named = (ssl: boolean): readonly string[] =>
          found.rows.filter((row) => row.ssl === ssl).map(({ name }) => name);
        return { tls: named(true), plain: named(false) };
      },
      end: async (application) => {
        const text = 'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1';
        await admin.query(text, [application]);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns the host in the server's certificate, whichever authority has signed it; undefined without TLS. */
async function presented(port: string): Promise<string | undefined> {
  const url = `postgres://postgres@localhost:${port}/postgres?sslmode=no-verify`;
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    const { stream } = (client as unknown as { connection: { stream: TLSSocket } }).connection;
    return stream.getPeerCertificate().subjectaltname;
  } catch {
    return undefined; // it does not speak TLS yet
  } finally {
    await client.end();
  }
}

const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

function makeAuthority(folder: string, name: string): string {
  const path = join(folder, name);
  openssl(
    'req',
    '-x509',
    ...key,
    '-subj',
    '/CN=pgqueue test',
    '-keyout',
    `${path}.key`,
    '-out',
    `${path}.crt`,
  );
  return path;
}

function makeCertificate(
  folder: string,
  ca: string,
  host: string,
): { readonly crt: string; readonly key: string } {
  const path = join(folder, host);
  const extensions = [
    '-addext',
    `subjectAltName=DNS:${host}`,
    '-addext',
    'basicConstraints=critical,CA:FALSE',
  ];
  const signed = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`];
  const subject = ['-subj', `/CN=${host}`];
  openssl(
    'req',
    '-x509',
    ...key,
    ...subject,
    ...extensions,
    ...signed,
    '-keyout',
    `${path}.key`,
    '-out',
    `${path}.crt`,
  );
  const read = (kind: string): string => readFileSync(`${path}.${kind}`, 'utf8');
  return { crt: read('crt'), key: read('key') };
}

function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' });
}
