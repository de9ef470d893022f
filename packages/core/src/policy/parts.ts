import type { Gate } from './gate.ts';
import type { Order } from './order.ts';
import type { Candidate } from './snapshot.ts';

/**
 * Rule that hands waiting jobs of one task and key to a handler together, as a bundle. The task must be
 * implemented with `implementBatch`.
 */
export interface Coalesce {
  readonly when: (job: Candidate) => boolean;
  /** Most jobs in one bundle, 2 to 1,000. A full bundle goes at once. */
  readonly max: number;
  /**
   * Longest wait for a full bundle, in milliseconds since its oldest job was enqueued. Then it goes with the
   * jobs that it has.
   */
  readonly ageMs: number;
}

/** The parts of a composed policy. */
export interface Parts {
  readonly gates: readonly Gate[];
  readonly order: Order;
  readonly coalesce: readonly Coalesce[];
  readonly recall: boolean;
}
