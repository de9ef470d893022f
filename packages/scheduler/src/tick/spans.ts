import type { Database } from '@pgqueue/postgres';
import { readTraces } from '@pgqueue/postgres';
import { isTracing, traceDispatch } from '@pgqueue/telemetry';
import type { Flying } from '../state/items/item.ts';

/** Makes a span of each batch, where somebody traces. */
export interface DispatchSpans {
  readonly written: (written: Flying, durationMs: number) => void;
}

/** A span has no more links. */
const linksMax = 128;

/** Reads what the jobs carry, after they were dispatched, and beside the next tick: one batch at a time, those meanwhile have no span. */
export function createDispatchSpans(database: Database): DispatchSpans {
  let busy = false;
  const make = async (
    ids: readonly string[],
    span: { readonly jobs: number; readonly startedAtMs: number; readonly endedAtMs: number },
  ): Promise<void> => {
    busy = true;
    try {
      traceDispatch(await readTraces(database, ids), span);
    } catch {
      // a span that is missing stops nothing
    } finally {
      busy = false;
    }
  };
  return {
    written: ({ items, count }, durationMs) => {
      if (count === 0 || busy || !isTracing()) return;
      const ids = items.flatMap(({ jobs }) => jobs.map(({ id }) => id)).slice(0, linksMax);
      const endedAtMs = Date.now();
      void make(ids, { jobs: count, startedAtMs: endedAtMs - durationMs, endedAtMs });
    },
  };
}
