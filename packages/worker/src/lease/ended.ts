import type { Lease, RowLease, SettleRequest, SettleVerdict } from '@pgqueue/postgres/internal';
import type { Unit } from './unit.ts';

/**
 * Outcome of a settlement. `stale`: the lease had been lost, and nothing was changed. `failed`: the database
 * did not take it; the lease runs out, or is released when the node leaves.
 */
export type Settled = SettleVerdict | 'stale' | 'failed';

/**
 * Outcome as it is reported. A settlement that an earlier try had achieved is reported as the outcome that it
 * asked for.
 */
export type Told = Exclude<Settled, 'repeated'>;

/** An attempt that has ended, and the callback for the outcome of its settlement. */
export interface Ended {
  readonly settlement: SettleRequest;
  readonly task: string;
  readonly onSettled: (settled: Settled) => void;
  /** Returns the settlement in place of one whose jobs the database has refused. */
  readonly onRefused?: ((error: unknown) => SettleRequest) | undefined;
}

/** A batch that is settled as one, by `Settler.settleRow`. The lists have one entry per job. */
export interface DoneRow extends RowLease {
  readonly busyMs: readonly number[];
  readonly data: readonly (string | null)[];
  readonly leases: () => readonly Lease[];
  /** Returns the settlements of the single jobs. */
  readonly ended: () => readonly Ended[];
  /** Passes the outcome on to all of its attempts. */
  readonly settled: (settled: Told) => void;
}

/** A batch that has not begun, with its jobs. */
export interface LeasedRow {
  readonly lease: RowLease;
  readonly jobs: Unit;
}
