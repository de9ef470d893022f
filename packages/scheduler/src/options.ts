import { hostname } from 'node:os';
import type { Observer, Policy, Shape } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  allObservers,
  aNumber,
  anObject,
  anything,
  aText,
  defaultPolicy,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core';
import type { DatabaseOptions, HealthOptions } from '@pgqueue/postgres';
import { databaseShape, healthShape } from '@pgqueue/postgres';
import type { Metrics } from '@pgqueue/telemetry';
import { createMetrics } from '@pgqueue/telemetry';
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
  /** The pause between ticks that find nothing to do, growing from `min` to `max`. Default 50 to 2000, without LISTEN 10 to 500. */
  readonly pollMs?: { readonly min: number; readonly max: number };
  /** Jobs in one batch at most, 1 to 10,000; where they make slow ticks, fewer. Default 1000. */
  readonly batchMax?: number;
  /** How many milliseconds ahead of the workers' consumption work items are made, at most; where ticks are faster, less: 50, or three ticks. Default 150. */
  readonly horizonMs?: number;
  /** Where it answers `GET /live`, `GET /ready` and `GET /metrics`, from `start` on. Default: nowhere. */
  readonly health?: HealthOptions;
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
  readonly metrics: Metrics;
}

const shape: Shape<SchedulerOptions> = {
  ...databaseShape,
  policy: optional(anything),
  shadow: optional(anything),
  policyBudgetMs: optional(aNumber({ min: 10, max: 10_000 })),
  listen: optional(aFlag),
  name: optional(aText()),
  leaseMs: optional(aNumber({ min: 100, max: 600_000 })),
  pollMs: optional(
    anObject({ min: aNumber({ min: 1, max: 60_000 }), max: aNumber({ min: 1, max: 60_000 }) }),
  ),
  batchMax: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  horizonMs: optional(aNumber({ min: 0, max: 10_000 })),
  health: optional(anObject(healthShape)),
  observe: optional(aFunction),
};

/** @throws {PgQueueError} `configuration`, with all problems at once */
export function toSettings(options: SchedulerOptions): Settings {
  const problems = optionProblems(options, shape);
  const given: SchedulerOptions = typeof options === 'object' && options !== null ? options : {};
  const listen = given.listen ?? given.connectionString !== undefined;
  const metrics = createMetrics({
    role: 'scheduler',
    prometheus: given.health?.metrics ?? given.health !== undefined,
  });
  const settings: Settings = {
    policy: given.policy ?? defaultPolicy(),
    shadow: given.shadow,
    budgetMs: given.policyBudgetMs ?? 250,
    listen,
    name: given.name ?? `${hostname()}-${process.pid}`,
    leaseMs: given.leaseMs ?? 5_000,
    pollMs: given.pollMs ?? (listen ? { min: 50, max: 2_000 } : { min: 10, max: 500 }),
    batchMax: given.batchMax ?? 1_000,
    horizonMs: given.horizonMs ?? 150,
    observe: allObservers(given.observe, metrics.observe),
    metrics,
  };
  throwProblems('configuration', 'the scheduler', [
    ...problems,
    ...(given.pollMs !== undefined && given.pollMs.min > given.pollMs.max
      ? ['pollMs.min must not be more than pollMs.max']
      : []),
    ...(listen && given.connectionString === undefined
      ? ['listen needs connectionString: a pool can not be listened on']
      : []),
    ...policyProblems('policy', settings.policy),
    ...(settings.shadow === undefined ? [] : policyProblems('shadow', settings.shadow)),
  ]);
  return settings;
}
