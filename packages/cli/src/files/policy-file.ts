import type { Policy } from '@pgqueue/core';
import type { Command } from 'commander';
import { importModule } from './module.ts';

export type PolicyFile =
  | { readonly kind: 'policy'; readonly policy: Policy }
  | { readonly kind: 'problem'; readonly problem: string };

/**
 * Imports a module (.js, .mjs, .ts, .mts) and returns its export `policy`. Problems are returned as text, so
 * that they can be reported together with other configuration problems.
 */
export async function loadPolicy(file: string, option: string): Promise<PolicyFile> {
  const problem = (text: string): PolicyFile => ({ kind: 'problem', problem: `${option} ${file}: ${text}` });
  const imported = await importModule(file);
  if (imported.kind === 'problem') {
    const { cause } = imported;
    // errors about options name the part they belong to
    const isOurs = cause instanceof Error && cause.name === 'PgQueueError';
    return problem(isOurs ? cause.message : imported.problem);
  }
  const { exported } = imported;
  const { policy } = exported;
  if (isPolicy(policy)) return { kind: 'policy', policy };
  return problem(whatIsWrong(exported));
}

const wanted = 'what policy({ gates, order }) returns';

/** Describes what the module exports instead of a policy named `policy`, and how to correct it. */
function whatIsWrong(exported: Readonly<Record<string, unknown>>): string {
  const { policy } = exported;
  if (policy !== undefined) return `its "policy" is ${kindOf(policy)}: it must be ${wanted}`;
  const name = Object.keys(exported).find((key) => isPolicy(exported[key]));
  if (name === 'default') return 'exports its policy as default: write "export const policy = …"';
  if (name !== undefined) return `exports its policy as "${name}": export it as "policy"`;
  const names = Object.keys(exported);
  const there = names.length === 0 ? 'nothing' : names.map((key) => `"${key}"`).join(', ');
  return `exports no "policy", but ${there}: export ${wanted} as "policy"`;
}

function kindOf(value: unknown): string {
  if (typeof value === 'function') return 'a function: call it';
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : `a ${typeof value}`;
  if (value instanceof Promise) return 'a promise: await it';
  if ('open' in value) return 'a gate or an order';
  if ('gates' in value || 'order' in value) return 'an object with gates or an order: give it to policy(…)';
  return Array.isArray(value) ? 'a list' : 'an object that is none';
}

/** Policy options of commands that run a scheduler. */
export interface PolicyOptions {
  readonly policy?: string;
  readonly shadow?: string;
}

/**
 * Policies loaded from these options. A file that cannot be used adds a problem, and its policy is undefined.
 */
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
