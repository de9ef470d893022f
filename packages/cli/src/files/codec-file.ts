import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Codec } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { aCodec } from '@pgqueue/core/internal';
import { whyNotImported } from './unread.ts';

/**
 * Imports a module (.js, .mjs, .ts, .mts) and returns the codec that it exports as `codec`, or as its default export.
 * @param from the option or variable that names the file
 * @throws {PgQueueError} `configuration`
 */
export async function loadCodec(file: string, from: string): Promise<Codec> {
  const wrong = (why: string, cause?: unknown): PgQueueError =>
    new PgQueueError('configuration', `${from} ${file}: ${why}`, { cause });
  const path = resolve(file);
  if (!/\.[cm]?[jt]s$/.test(path)) throw wrong('is no module: give a .js, .mjs, .ts or .mts file');
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) throw wrong('there is no such file');
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw wrong(whyNotImported(error, path), error);
  }
  const codec = exported['codec'] ?? exported['default'];
  if (isCodec(codec)) return codec;
  throw wrong('exports no codec: export const codec = encrypted({ keys, plain })');
}

/** Reports whether a value is a codec. */
export function isCodec(value: unknown): value is Codec {
  return aCodec.judge(value, 'codec') === true;
}
