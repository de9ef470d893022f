import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Payload } from '../load.ts';
import { nowMicros, numberOf } from '../load.ts';
import type { Worked, WorkOrder } from './orders.ts';
import type { Handle, Runner } from '../peers/peer.ts';

/** Counts the jobs that a worker runs. */
export interface Counter {
  readonly runner: Runner;
  readonly runs: () => number;
  readonly watched: () => number;
  /** Writes the files that the result names. */
  readonly counted: () => Worked;
}

/** Uses one bit a job and allocates no objects per job, so that counting does not distort the measurement. */
export function counter(order: WorkOrder): Counter {
  const { handling, remember, capacity, watchFrom = Infinity, watchEvery = 1 } = order;
  const seen = new Uint8Array(Math.ceil(capacity / 8)).fill(0);
  const remembered = remember === 'nothing' ? undefined : new Float64Array(capacity);
  const claims = claimNotes();
  let [runs, firstAt, watched] = [0, 0, 0];

  const begin = (payload: Payload): number => {
    const n = numberOf(payload);
    if (runs === 0) firstAt = nowMicros();
    runs += 1;
    seen[n >> 3] = (seen[n >> 3] ?? 0) | (1 << (n & 7));
    if (remember === 'waited' && remembered !== undefined) remembered[n] = nowMicros() - payload.at;
    return n;
  };
  const end = (n: number): void => {
    if (n >= watchFrom && (n + 1) % watchEvery === 0) watched += 1;
    if (remember === 'ended' && remembered !== undefined) remembered[n] = nowMicros();
  };

  const handle: Handle =
    handling.kind === 'nothing'
      ? (payload) => {
          end(begin(payload));
          return undefined;
        }
      : async (payload) => {
          const n = begin(payload);
          await delay(handling.ms);
          end(n);
        };

  return {
    runner: { handle, claimed: claims.note },
    runs: () => runs,
    watched: () => watched,
    counted: () => ({
      kind: 'worked',
      runs,
      firstAt,
      ...written({ seen, claims: claims.noted(), remembered }),
    }),
  };
}

/**
 * Claims that fit in the buffer. It is allocated at the start, for hours of claims, so that memory does not
 * appear to grow during a soak.
 */
const claimsMax = 500_000;

function claimNotes(): { readonly note: (ms: number) => void; readonly noted: () => Float64Array } {
  const claims = new Float64Array(2 * claimsMax).fill(0);
  let count = 0;
  return {
    note: (ms) => {
      if (count === claimsMax) return;
      claims[2 * count] = nowMicros();
      claims[2 * count + 1] = ms;
      count += 1;
    },
    noted: () => claims.subarray(0, 2 * count),
  };
}

interface Notes {
  readonly seen: Uint8Array;
  readonly claims: Float64Array;
  readonly remembered: Float64Array | undefined;
}

/** Writes the arrays to files and returns their names; messages between processes are JSON. */
function written({ seen, claims, remembered }: Notes): Pick<Worked, 'seen' | 'claims' | 'remembered'> {
  const folder = mkdtempSync(join(process.env['PGQUEUE_BENCH_SCRATCH'] ?? tmpdir(), 'counted-'));
  const write = (name: string, values: Uint8Array | Float64Array): string => {
    const file = join(folder, name);
    writeFileSync(file, values);
    return file;
  };
  return {
    seen: write('seen', seen),
    claims: write('claims', claims),
    remembered: remembered === undefined ? undefined : write('remembered', remembered),
  };
}
