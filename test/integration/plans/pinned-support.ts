import pg from 'pg';

/**
 * Pages that one statement of a session has read, from the server's memory and from disk, dead rows included.
 */
export interface Reading {
  readonly query: string;
  readonly pages: number;
}

/** Counts of pages in a node of PostgreSQL's EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON). */
export interface Pages {
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
}

export function pagesOf(plan: Pages): number {
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

const settings: Readonly<Record<string, string>> = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_format': 'json',
  client_min_messages: 'log',
};

/** Opens a pool that records the pages read by its statements, functions that they call included. */
export function openReadingPool(connectionString: string): {
  readonly pool: pg.Pool;
  readonly take: () => readonly Reading[];
} {
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const pool = new pg.Pool({ connectionString, max: 6, options: options.join(' ') });
  const readings: Reading[] = [];
  pool.on('connect', (client) => {
    client.on('notice', ({ message }) => {
      const json = message?.startsWith('duration:') === true ? message.indexOf('{') : -1;
      if (message === undefined || json === -1) return;
      const { 'Query Text': query, Plan: plan } = JSON.parse(message.slice(json)) as {
        readonly 'Query Text': string;
        readonly Plan: Pages;
      };
      readings.push({ query, pages: pagesOf(plan) });
    });
  });
  return { pool, take: () => readings.splice(0) };
}

/**
 * Opens a session that keeps vacuum from removing rows that die from now on: a report that only reads, or a
 * forgotten transaction that has written.
 */
export async function pin(
  connectionString: string,
  kind: 'reads' | 'wrote',
): Promise<{ readonly end: () => Promise<void> }> {
  const client = new pg.Client({ connectionString, application_name: 'a long one' });
  await client.connect();
  await client.query('begin isolation level repeatable read');
  await client.query(kind === 'reads' ? 'select 1' : 'select pg_current_xact_id()');
  return { end: () => client.end() };
}
