import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Policy } from '@pgqueue/core';

export type PolicyFile =
  | { readonly kind: 'policy'; readonly policy: Policy }
  | { readonly kind: 'problem'; readonly problem: string };

/**
 * Imports a module (.js, .mjs, .ts, .mts) and takes the policy that it exports as `policy`. What is wrong comes back as a text, so
 * that it can be told together with other problems of the configuration.
 */
export async function loadPolicy(file: string, option: string): Promise<PolicyFile> {
  const problem = (text: string): PolicyFile => ({ kind: 'problem', problem: `${option} ${file}: ${text}` });
  const path = resolve(file);
  if (!/\.[cm]?[jt]s$/.test(path)) return problem('is no module: give a .js, .mjs, .ts or .mts file');
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return problem('there is no such file');
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return problem(`can't be imported: ${why}`);
  }
  const { policy } = exported;
  if (isPolicy(policy)) return { kind: 'policy', policy };
  const names = Object.keys(exported).join(', ') || 'nothing';
  return problem(
    `exports no policy (it exports ${names}); export what policy({ order, gates }) returns as policy`,
  );
}

function isPolicy(value: unknown): value is Policy {
  if (typeof value !== 'object' || value === null) return false;
  const { name, plan, initial } = value as Partial<Record<keyof Policy, unknown>>;
  return (
    typeof name === 'string' && typeof plan === 'function' && typeof initial === 'object' && initial !== null
  );
}
