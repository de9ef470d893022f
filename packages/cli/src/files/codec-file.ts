import type { Codec } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { aCodec } from '@pgqueue/core/internal';
import { importModule } from './module.ts';

/**
 * Imports a module (.js, .mjs, .ts, .mts) and returns the codec that it exports as `codec`, or as its default export.
 * @param from the option or variable that names the file
 * @throws {PgQueueError} `configuration`
 */
export async function loadCodec(file: string, from: string): Promise<Codec> {
  const wrong = (why: string, cause?: unknown): PgQueueError =>
    new PgQueueError('configuration', `${from} ${file}: ${why}`, { cause });
  const imported = await importModule(file);
  if (imported.kind === 'problem') throw wrong(imported.problem, imported.cause);
  const { exported } = imported;
  const codec = exported['codec'] ?? exported['default'];
  if (isCodec(codec)) return codec;
  throw wrong('exports no codec: export const codec = encrypted({ keys, plain })');
}

/** Reports whether a value is a codec. */
export function isCodec(value: unknown): value is Codec {
  return aCodec.judge(value, 'codec') === true;
}
