import type { Gate } from './gate.ts';
import type { Order } from './order.ts';
import type { Candidate } from './snapshot.ts';

/** Waiting jobs of one task and key are handed to a handler as one batch. The task must be implemented with `implementBatch`. */
export interface Coalesce {
  readonly when: (job: Candidate) => boolean;
  /** Jobs in one batch at most, 2 to 1000. As many as wait go at once. */
  readonly max: number;
  /** A batch that is not full goes when its first job has waited so long; it counts from when that was enqueued. */
  readonly ageMs: number;
}

/** The parts of a composed policy. */
export interface Parts {
  readonly gates: readonly Gate[];
  readonly order: Order;
  readonly coalesce: readonly Coalesce[];
  readonly recall: boolean;
}
