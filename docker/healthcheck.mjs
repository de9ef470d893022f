// Is this container's role at work? One short query: an engine asks every few seconds.
//   node healthcheck.mjs scheduler     somebody leads: this scheduler, or the one that it stands by for
//   node healthcheck.mjs worker NODE   the node's heartbeat is fresh
// Takes --schema S, where it is not `pgqueue`.
import { parseArgs } from 'node:util';
import pg from 'pg';

const timeoutMs = 3_000;
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { schema: { type: 'string', default: 'pgqueue' } },
});
const [role, node = ''] = positionals;
const { schema } = values;
if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) throw new Error('--schema is no schema name');

/** @type {Readonly<Record<string, { sql: string, values: readonly string[] }>>} */
const checks = {
  scheduler: {
    sql: `select expires > clock_timestamp() as healthy from ${schema}.scheduler_lease`,
    values: [],
  },
  worker: {
    sql: `select state in ('alive', 'draining')
                 and heartbeat > clock_timestamp() - lost_after_ms * interval '1 millisecond' as healthy
          from ${schema}.node where id = $1`,
    values: [node],
  },
};
const check = checks[role ?? ''];
if (check === undefined) throw new Error('usage: healthcheck.mjs scheduler | worker NODE');

const client = new pg.Client({
  connectionString: process.env['PGQUEUE_DATABASE_URL'] || process.env['DATABASE_URL'],
  application_name: 'pgqueue healthcheck',
  connectionTimeoutMillis: timeoutMs,
  query_timeout: timeoutMs,
});
await client.connect();
const { rows } = await client.query(check.sql, [...check.values]);
await client.end();
if (rows[0]?.healthy !== true) {
  console.error(role === 'worker' ? `node ${node} is not alive` : 'no scheduler leads');
  process.exitCode = 1;
}
