import type { Database } from '@pgqueue/postgres';
import { readTraces } from '@pgqueue/postgres/internal';
import { isTracing, traceDispatch } from '@pgqueue/telemetry/internal';
import type { Flying } from '../state/items/item.ts';

/** Creates a span for each dispatched batch if tracing is active. */
export interface DispatchSpans {
  readonly written: (written: Flying, durationMs: number) => void;
}

/** Most links per span. */
const linksMax = 128;

/**
 * Reads the jobs' trace contexts after the dispatch, in parallel with the next tick. One batch at a time:
 * batches dispatched meanwhile get no span.
 */
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
      // a missing span must not stop anything
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
