import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aListOf,
  anObject,
  oneOf,
  optional,
  repeated,
  throwProblems,
  valueProblems,
} from '@pgqueue/core/internal';
import { aConnectionString } from '../connection/connection-string.ts';
import { databaseShape } from '../connection/database-options.ts';
import { identityShape } from '../operator/installation.ts';

/** One of the installations that a router knows. */
export interface Installation {
  /** Number that its database has by `pgqueue installations init`, 0 to 1023. */
  readonly number: number;
  /** Name that its database has, for people: 1 to 63 of a-z, 0-9, `-` and `_`. */
  readonly name: string;
  readonly connectionString: string;
  /** Schema of pgqueue in that database. Default `pgqueue`. */
  readonly schema?: string;
  /** `draining`: is the home of no key, but for those that routes name. Default `active`. */
  readonly state?: 'active' | 'draining';
}

/** Most installations that a router knows: their numbers are ten bits. */
const installationsMax = 1_024;

const installationShape: Shape<Installation> = {
  ...identityShape,
  connectionString: aConnectionString,
  schema: databaseShape.schema,
  state: optional(oneOf('active', 'draining')),
};

/** Rule for a list of installations, each by itself. */
export const installationsRule: Rule = aListOf(
  anObject(installationShape),
  `a list of 1 to ${installationsMax} installations: [{ number: 1, name: 'eu-1', connectionString: 'postgres://…' }]`,
);

/**
 * Checks the installations that a router is given, before any I/O. Returns them in the order of their numbers.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function checkInstallations(given: unknown): readonly Installation[] {
  throwProblems('configuration', 'the installations', installationsProblems(given));
  return (given as readonly Installation[]).toSorted((a, b) => a.number - b.number);
}

/** Returns what is wrong with a list of installations; empty: nothing. Tells no connection string. */
export function installationsProblems(given: unknown): readonly string[] {
  const wrong = valueProblems(installationsRule, given, 'installations');
  if (wrong.length > 0) return wrong;
  const all = given as readonly Installation[];
  const problems: string[] = [];
  if (all.length === 0 || all.length > installationsMax)
    problems.push(`there must be 1 to ${installationsMax} installations, not ${all.length}`);
  for (const twice of repeated(all.map(({ number }) => number)))
    problems.push(`two installations have the number ${twice}: give each one of its own`);
  for (const twice of repeated(all.map(({ name }) => name)))
    problems.push(`two installations have the name ${JSON.stringify(twice)}: give each one of its own`);
  if (all.length > 0 && all.every(({ state }) => state === 'draining'))
    problems.push('all installations are draining: at least one must be active');
  return problems;
}

/** Returns what is wrong with the number or the name that a database says; undefined: nothing. */
export function identityProblem(
  { number, name }: Pick<Installation, 'number' | 'name'>,
  found: { readonly number: number; readonly name: string } | undefined,
): string | undefined {
  const init = `pgqueue installations init --number ${number} --name ${name}`;
  if (found === undefined) return `its database has no number: run "${init}" there`;
  if (found.number !== number)
    return `its database says number ${found.number} (${found.name}): is its connection string the one of another installation? Otherwise correct the number in the list`;
  if (found.name !== name)
    return `its database says the name ${JSON.stringify(found.name)}: correct the list, or rename it by "${init}"`;
  return undefined;
}
