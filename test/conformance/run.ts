import { availableParallelism } from 'node:os';
import { lacks } from '../support/tools.ts';
import type { Case } from './cases/case.ts';
import { connections } from './cases/connections.ts';
import { contents } from './cases/contents.ts';
import { leases } from './cases/leases.ts';
import { outcomes } from './cases/outcomes.ts';
import type { Client } from './clients.ts';
import { openGround, schema } from './ground.ts';
import type { OnStage } from './stage.ts';
import { onStage } from './stage.ts';

export const cases: readonly Case[] = [...outcomes, ...leases, ...contents, ...connections];

/**
 * Result of a case. `not offered`: the worker does not implement its tasks. `skipped`: a program is missing
 * here.
 */
export type Result =
  | { readonly kind: 'passed' | 'not offered' | 'skipped' }
  | { readonly kind: 'failed'; readonly error: string };

export interface RunOptions {
  /** Connection string of a superuser of the server. */
  readonly adminUrl: string;
  readonly client: Client;
  /** Default: all. */
  readonly chosen?: readonly Case[];
  /** Longest wait of a case for anything, in milliseconds. */
  readonly waitMs?: number;
  readonly observe?: (name: string, result: Result, tookMs: number) => void;
}

/** Most cases at a time: most of them wait. */
const lanes = Math.max(4, 2 * availableParallelism());

/** Runs cases with one client, in a database of its own; resolves to the results by case. */
export async function runClient(options: RunOptions): Promise<ReadonlyMap<string, Result>> {
  const { adminUrl, client, chosen = cases, observe = () => {}, ...times } = options;
  const results = new Map<string, Result>();
  const ground = await openGround(adminUrl);
  const on: On = { ground, command: client.command, ...times };
  try {
    const offered = await offeredTasks(on);
    const waiting = [...chosen.filter(({ slow }) => slow), ...chosen.filter(({ slow }) => !slow)];
    const lane = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const startedAt = performance.now();
        const result = await runCase(next, on, offered);
        results.set(next.name, result);
        observe(next.name, result, performance.now() - startedAt);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    await ground.close();
  }
  return results;
}

type On = Omit<OnStage, 'name'>;

async function runCase(each: Case, on: On, offered: ReadonlySet<string>): Promise<Result> {
  if (each.tasks.some((task) => !offered.has(task))) return { kind: 'not offered' };
  if (each.tools?.some(lacks) === true) return { kind: 'skipped' };
  try {
    await onStage({ ...on, name: each.name }, each.run);
    return { kind: 'passed' };
  } catch (error) {
    return { kind: 'failed', error: error instanceof Error ? error.message : String(error) };
  }
}

/** Starts the worker once, and returns the tasks that it registers. */
async function offeredTasks(on: On): Promise<ReadonlySet<string>> {
  let tasks: object = {};
  await onStage({ ...on, name: 'offers' }, async (stage) => {
    const { node } = await stage.start();
    const [row] = await stage.sql(`select tasks from ${schema}.node where id = $1`, [node]);
    tasks = row?.['tasks'] as object;
  });
  return new Set(Object.keys(tasks));
}
