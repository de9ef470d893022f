import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { whyNotImported } from './unread.ts';

/** Exports of a module, or the problem that keeps it from being imported. */
export type ImportedModule =
  | { readonly kind: 'module'; readonly exported: Readonly<Record<string, unknown>> }
  | { readonly kind: 'problem'; readonly problem: string; readonly cause?: unknown };

/** Imports a module (.js, .mjs, .ts, .mts). The problem names no file. */
export async function importModule(file: string): Promise<ImportedModule> {
  const path = resolve(file);
  if (!/\.[cm]?[jt]s$/.test(path))
    return { kind: 'problem', problem: 'is no module: give a .js, .mjs, .ts or .mts file' };
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true)
    return { kind: 'problem', problem: 'there is no such file' };
  try {
    const exported = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
    return { kind: 'module', exported };
  } catch (cause) {
    return { kind: 'problem', problem: whyNotImported(cause, path), cause };
  }
}
