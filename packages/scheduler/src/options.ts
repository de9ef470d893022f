import { hostname } from 'node:os';
import type { Observer, Policy } from '@pgqueue/core';
import { allObservers, defaultPolicy, throwProblems } from '@pgqueue/core';
import type { DatabaseOptions } from '@pgqueue/postgres';
import { policyProblems } from './policy-problems.ts';

export interface SchedulerOptions extends DatabaseOptions {
  /** Who goes first, and who is held. Default: {@link defaultPolicy}. */
  readonly policy?: Policy;
  /** Plans beside it on the same snapshots, and dispatches nothing: the differences are reported. */
  readonly shadow?: Policy;
  /** A policy that takes longer for a plan is interrupted; then jobs go FIFO per key, within the limits. 10 to 10,000, default 250. */
  readonly policyBudgetMs?: number;
  /** Whether to hear hints by LISTEN, which needs a connection string to the server itself. Default: where one is given. */
  readonly listen?: boolean;
  /** For people: part of the id under which it leads. Default: host name and process id. */
  readonly name?: string;
  /** A leader that says nothing for so long is replaced. Default 5000. */
  readonly leaseMs?: number;
  /** The pause between ticks that find nothing to do, growing from `min` to `max`. Default 50 to 2000, without LISTEN 20 to 500. */
  readonly pollMs?: { readonly min: number; readonly max: number };
  /** Jobs in one batch at most, 1 to 10,000; where they make slow ticks, fewer. Default 1000. */
  readonly batchMax?: number;
  /** How far ahead of the workers' consumption work items are made, at most; where ticks are faster, less. Default 150. */
  readonly horizonMs?: number;
  readonly observe?: Observer;
}

export interface Settings {
  readonly policy: Policy;
  readonly shadow: Policy | undefined;
  readonly budgetMs: number;
  readonly listen: boolean;
  readonly name: string;
  readonly leaseMs: number;
  readonly pollMs: { readonly min: number; readonly max: number };
  readonly batchMax: number;
  readonly horizonMs: number;
  readonly observe: Observer;
}

/** @throws {PgQueueError} `configuration`, with all problems at once */
export function toSettings(options: SchedulerOptions): Settings {
  const listen = options.listen ?? options.connectionString !== undefined;
  const settings: Settings = {
    policy: options.policy ?? defaultPolicy(),
    shadow: options.shadow,
    budgetMs: options.policyBudgetMs ?? 250,
    listen,
    name: options.name ?? `${hostname()}-${process.pid}`,
    leaseMs: options.leaseMs ?? 5_000,
    pollMs: options.pollMs ?? (listen ? { min: 50, max: 2_000 } : { min: 20, max: 500 }),
    batchMax: options.batchMax ?? 1_000,
    horizonMs: options.horizonMs ?? 150,
    observe: allObservers(options.observe),
  };
  const { pollMs, batchMax, horizonMs, leaseMs, budgetMs } = settings;
  const within = (value: number, min: number, max: number): boolean => value >= min && value <= max;
  throwProblems('configuration', 'the scheduler', [
    ...(listen && options.connectionString === undefined
      ? ['listen needs connectionString: a pool can not be listened on']
      : []),
    ...policyProblems('policy', settings.policy),
    ...(settings.shadow === undefined ? [] : policyProblems('shadow', settings.shadow)),
    ...(within(settings.budgetMs, 10, 10_000) ? [] : ['policyBudgetMs must be 10 to 10000']),
    ...(within(leaseMs, 100, 600_000) ? [] : ['leaseMs must be 100 to 600000']),
    ...(within(pollMs.min, 1, pollMs.max) && pollMs.max <= 60_000
      ? []
      : ['pollMs must have 1 <= min <= max <= 60000']),
    ...(Number.isInteger(batchMax) && within(batchMax, 1, 10_000)
      ? []
      : ['batchMax must be a whole number from 1 to 10000']),
    ...(within(budgetMs, 10, 10_000) ? [] : ['policyBudgetMs must be 10 to 10000']),
    ...(within(horizonMs, 0, 10_000) ? [] : ['horizonMs must be 0 to 10000']),
  ]);
  return settings;
}
