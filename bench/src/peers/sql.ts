import pg from 'pg';

/** Runs statements one after another on a new connection. */
export async function runSql(connectionString: string, ...texts: readonly string[]): Promise<void> {
  await withClient(connectionString, async (client) => {
    for (const text of texts) await client.query(text);
  });
}

export async function withClient<Result>(
  connectionString: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/**
 * Reports whether a query returns a row. Sequential scans are off: repeated calls do not reread dead rows.
 */
export function anyRow(connectionString: string, text: string): Promise<boolean> {
  return withClient(connectionString, async (client) => {
    await client.query('set enable_seqscan = off');
    const { rows } = await client.query(text);
    return rows.length > 0;
  });
}
