import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from } from 'pg-copy-streams';

/**
 * Sends the chunks of one COPY … FROM STDIN, all or nothing. After a timeout (`timeoutMs`) the connection
 * cannot be used again.
 */
export async function copyIn(
  client: pg.ClientBase,
  statement: string,
  { chunks, timeoutMs }: { readonly chunks: Iterable<string>; readonly timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    await pipeline(Readable.from(chunks), client.query(from(statement)), { signal });
  } catch (error) {
    // the message that pg gives a statement, which `isQueryTimeout` looks for
    throw signal.aborted ? new Error('Query read timeout', { cause: error }) : error;
  }
}
