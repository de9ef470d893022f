import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from } from 'pg-copy-streams';

/**
 * Sends the chunks of one COPY … FROM STDIN, all or nothing, on a connection of the pool. Where it fails, or takes longer than
 * `timeoutMs`, the connection is not used again.
 */
export async function copyIn(
  pool: pg.Pool,
  statement: string,
  { chunks, timeoutMs }: { readonly chunks: Iterable<string>; readonly timeoutMs: number },
): Promise<void> {
  const client = await pool.connect();
  let broken: Error | undefined;
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on('error', onError);
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    await pipeline(Readable.from(chunks), client.query(from(statement)), { signal });
  } catch (error) {
    // said as pg says it of a statement
    const told = signal.aborted ? new Error('Query read timeout', { cause: error }) : error;
    broken ??= told instanceof Error ? told : new Error(String(told));
    throw told;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}
