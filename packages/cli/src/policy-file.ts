import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Policy } from '@pgqueue/core';
import type { Command } from 'commander';

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

/** The options of a command that runs a scheduler. */
export interface PolicyOptions {
  readonly policy?: string;
  readonly shadow?: string;
}

/** What they name; what is wrong with a file is a problem, and its policy is left out. */
export interface Policies {
  readonly policy?: Policy;
  readonly shadow?: Policy;
  readonly problems: readonly string[];
}

export function withPolicies(command: Command): Command {
  return command
    .option(
      '--policy <file>',
      'a module (.js, .mjs, .ts) that exports a policy as "policy"; give every scheduler the same',
    )
    .option(
      '--shadow <file>',
      'another one that plans beside it, and dispatches nothing: "status" shows how it differs',
    );
}

export async function loadPolicies({ policy, shadow }: PolicyOptions): Promise<Policies> {
  const [own, beside] = await Promise.all([
    policy === undefined ? undefined : loadPolicy(policy, '--policy'),
    shadow === undefined ? undefined : loadPolicy(shadow, '--shadow'),
  ]);
  return {
    ...(own?.kind === 'policy' ? { policy: own.policy } : {}),
    ...(beside?.kind === 'policy' ? { shadow: beside.policy } : {}),
    problems: [own, beside].flatMap((loaded) => (loaded?.kind === 'problem' ? [loaded.problem] : [])),
  };
}

function isPolicy(value: unknown): value is Policy {
  if (typeof value !== 'object' || value === null) return false;
  const { name, plan, initial } = value as Partial<Record<keyof Policy, unknown>>;
  return (
    typeof name === 'string' && typeof plan === 'function' && typeof initial === 'object' && initial !== null
  );
}
