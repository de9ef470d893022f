import { hostname } from 'node:os';
import type { Observer, Policy } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { allObservers, defaultPolicy } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aNumber,
  anObject,
  anything,
  aText,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { DatabaseOptions, HealthOptions } from '@pgqueue/postgres';
import { databaseShape, healthShape } from '@pgqueue/postgres/internal';
import type { Metrics } from '@pgqueue/telemetry';
import { createMetrics } from '@pgqueue/telemetry';
import { policyProblems } from './policy-problems.ts';

export interface SchedulerOptions extends DatabaseOptions {
  /** Decides which job goes next and which jobs are held. Default: {@link defaultPolicy}. */
  readonly policy?: Policy;
  /**
   * A second policy that plans on the same snapshots and dispatches nothing; its differences from `policy`
   * are reported.
   */
  readonly shadow?: Policy;
  /**
   * Longest time for one plan, in milliseconds; a policy that takes longer is interrupted, and that tick
   * plans FIFO per key within the limits. 10 to 10,000. Default 250.
   */
  readonly policyBudgetMs?: number;
  /**
   * Listens for hints with LISTEN, which needs a connection string that goes to the server directly (no
   * transaction pooler). Default: true if a connection string is given.
   */
  readonly listen?: boolean;
  /** Human-readable part of the id this scheduler leads under. Default: host name and process id. */
  readonly name?: string;
  /**
   * Milliseconds without a renewal after which another scheduler takes over. 100 to 600,000. Default 5000.
   */
  readonly leaseMs?: number;
  /**
   * Pause between ticks that find nothing to do, in milliseconds; it grows from `min` to `max`. Default 50 to
   * 2000; without LISTEN, 10 to 500.
   */
  readonly pollMs?: { readonly min: number; readonly max: number };
  /**
   * Most jobs dispatched by one tick, 1 to 10,000. The scheduler uses fewer while full batches make ticks
   * slow. Default 1000.
   */
  readonly batchMax?: number;
  /**
   * Longest horizon, in milliseconds: ready work items cover up to this much of the workers' consumption.
   * When ticks are fast and hints arrive, the horizon shrinks to 50 ms or three ticks, whichever is longer. 0
   * to 10,000. Default 150.
   */
  readonly horizonMs?: number;
  /** Serves `GET /live`, `GET /ready` and `GET /metrics` from `start` on. Default: no HTTP server. */
  readonly health?: HealthOptions;
  readonly observe?: Observer;
}

export interface Settings {
  readonly policy: Policy;
  readonly shadow: Policy | undefined;
  /** True if the rules are pgqueue's own and see no difference between jobs of a lane. */
  readonly alike: boolean;
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

/**
 * Validates options and fills in defaults. @throws {PgQueueError} `configuration`, with all problems at once
 */
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
    alike: given.policy === undefined && given.shadow === undefined,
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
