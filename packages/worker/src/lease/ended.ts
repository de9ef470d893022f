import type { Lease, RowLease, Settlement, Verdict } from '@pgqueue/postgres';
import type { Unit } from './unit.ts';

/**
 * `stale`: the lease had been lost, and nothing was changed. `failed`: it could not be settled, and its lease will run out or
 * be released when the node leaves.
 */
export type Settled = Verdict | 'stale' | 'failed';

/** What an attempt's end came to: one that was settled by an earlier try was settled as it asked for. */
export type Told = Exclude<Settled, 'repeated'>;

/** An attempt that ended, and who is to hear what became of it. */
export interface Ended {
  readonly settlement: Settlement;
  readonly onSettled: (settled: Settled) => void;
}

/** A batch that is settled as one: `Settler.settleRow`. The lists have an entry for each job. */
export interface DoneRow extends RowLease {
  readonly busyMs: readonly number[];
  readonly data: readonly (string | null)[];
  readonly leases: () => readonly Lease[];
  /** For settling each by itself. */
  readonly ended: () => readonly Ended[];
  /** Tells what became of all of them. */
  readonly settled: (settled: Told) => void;
}

/** A batch that has not begun, with its jobs. */
export interface LeasedRow {
  readonly lease: RowLease;
  readonly jobs: Unit;
}
