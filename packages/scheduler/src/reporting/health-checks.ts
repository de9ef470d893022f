import type { Ticks } from '../tick/tick-loop.ts';
import type { HealthOptions } from '@pgqueue/postgres';
import type { HealthChecks } from '@pgqueue/postgres/internal';
import { stuckLoops } from '@pgqueue/postgres/internal';
import type { Election } from '../leadership/election.ts';
import type { Settings } from '../options.ts';

export interface LivenessParts {
  readonly election: Election;
  readonly ticks: Ticks;
  readonly sweeps: { readonly stuckMs: () => number };
  readonly flows: { readonly stuckMs: () => number };
}

/**
 * Longest time without a tick before the leader counts as not ready, in milliseconds. A leader ticks at least
 * every two seconds; under load one tick may take much longer.
 */
const tickedMs = 30_000;

/**
 * Builds the scheduler's health checks. Live: its loops make progress, whatever the database does (a restart
 * would not fix the database). Ready: the scheduler leads and plans, or stands by and has recently read which
 * scheduler leads.
 */
export function schedulerChecks(
  { leaseMs, pollMs, metrics }: Pick<Settings, 'leaseMs' | 'pollMs' | 'metrics'>,
  options: HealthOptions,
  parts: () => LivenessParts | undefined,
): HealthChecks {
  const electedFirst = { since: -Infinity };
  return {
    metrics: metrics.page,
    live: () => {
      const running = parts();
      if (running === undefined) return [];
      const { election, ticks, sweeps, flows } = running;
      return stuckLoops({ leadership: election, ticks, sweeps, flows }, options);
    },
    ready: () => {
      const running = parts();
      if (running === undefined) return ['it has not reached the database yet'];
      const { election, ticks } = running;
      const readMs = election.readMsAgo();
      if (readMs > 3 * leaseMs) return [`who leads was last read ${sayMs(readMs)} ago`];
      if (election.term() === undefined) {
        electedFirst.since = -Infinity;
        return [];
      }
      if (electedFirst.since === -Infinity) electedFirst.since = performance.now();
      const idleMs = Math.min(ticks.tickedMsAgo(), performance.now() - electedFirst.since);
      return idleMs > Math.max(tickedMs, 2 * pollMs.max)
        ? [`it leads, and last planned ${sayMs(idleMs)} ago`]
        : [];
    },
  };
}

function sayMs(ms: number): string {
  return ms === Infinity ? 'ages' : `${Math.round(ms)} ms`;
}
