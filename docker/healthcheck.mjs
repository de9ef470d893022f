// Is this container's role at work? One short question: an engine asks every few seconds.
//   node healthcheck.mjs scheduler     somebody leads: this scheduler, or the one that it stands by for
//   node healthcheck.mjs worker NODE   the node's heartbeat is fresh
//   node healthcheck.mjs http URL      a GET is answered with success
// Takes --schema S, where it is not `pgqueue`.
import { parseArgs } from 'node:util';
import pg from 'pg';

const timeoutMs = 3_000;
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { schema: { type: 'string', default: 'pgqueue' } },
});
const { schema } = values;
if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) throw new Error('--schema is no schema name');

/** @param {string} condition @param {readonly string[]} parameters */
async function holds(condition, parameters) {
  const client = new pg.Client({
    connectionString: process.env['PGQUEUE_DATABASE_URL'] || process.env['DATABASE_URL'],
    application_name: 'pgqueue healthcheck',
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  });
  await client.connect();
  const { rows } = await client.query(`select exists (${condition}) as holds`, [...parameters]);
  await client.end();
  return rows[0].holds === true;
}

/** @param {string} role @param {string} argument @returns {Promise<string | undefined>} what is wrong */
async function problem(role, argument) {
  switch (role) {
    case 'scheduler': {
      const lease = `select from ${schema}.scheduler_lease where expires > clock_timestamp()`;
      return (await holds(lease, [])) ? undefined : 'no scheduler leads';
    }
    case 'worker': {
      const node = `select from ${schema}.node where id = $1 and state in ('alive', 'draining')
                    and heartbeat > clock_timestamp() - lost_after_ms * interval '1 millisecond'`;
      return (await holds(node, [argument])) ? undefined : `node ${argument} is not alive`;
    }
    case 'http': {
      const { ok, status } = await fetch(argument, { signal: AbortSignal.timeout(timeoutMs) });
      return ok ? undefined : `${argument} answers ${status}`;
    }
    default:
      throw new Error('usage: healthcheck.mjs scheduler | worker NODE | http URL');
  }
}

const [role = '', argument = ''] = positionals;
const found = await problem(role, argument);
if (found !== undefined) {
  console.error(found);
  process.exitCode = 1;
}
