import type { Ticks } from '../tick/tick-loop.ts';
import type { HealthChecks, HealthOptions } from '@pgqueue/postgres';
import { stuckLoops } from '@pgqueue/postgres';
import type { Leadership } from '../leadership/election.ts';
import type { Settings } from '../options.ts';

export interface LivenessParts {
  readonly leadership: Leadership;
  readonly ticks: Ticks;
  readonly sweeps: { readonly stuckMs: () => number };
}

/** A leader's ticks come every two seconds at least; one may take so long under load. */
const tickedMs = 30_000;

/**
 * Live: its loops go on, whatever the database does (starting it anew would not mend that). Ready: it leads, and plans; or it stands
 * by, and has asked of late who leads.
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
      const { leadership, ticks, sweeps } = running;
      return stuckLoops({ leadership, ticks, sweeps }, options);
    },
    ready: () => {
      const running = parts();
      if (running === undefined) return ['it has not reached the database yet'];
      const { leadership, ticks } = running;
      const readMs = leadership.readMsAgo();
      if (readMs > 3 * leaseMs) return [`who leads was last read ${sayMs(readMs)} ago`];
      if (leadership.reign() === undefined) {
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
