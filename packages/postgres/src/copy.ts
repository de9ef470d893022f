import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from } from 'pg-copy-streams';
import { withClient } from './pool-query.ts';

/**
 * Sends the chunks of one COPY … FROM STDIN, all or nothing, on a connection of the pool. Where it fails, or takes longer than
 * `timeoutMs`, the connection is not used again.
 */
export function copyIn(
  pool: pg.Pool,
  statement: string,
  { chunks, timeoutMs }: { readonly chunks: Iterable<string>; readonly timeoutMs: number },
): Promise<void> {
  return withClient(pool, async (client) => {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      await pipeline(Readable.from(chunks), client.query(from(statement)), { signal });
    } catch (error) {
      // said as pg says it of a statement
      throw signal.aborted ? new Error('Query read timeout', { cause: error }) : error;
    }
  });
}
