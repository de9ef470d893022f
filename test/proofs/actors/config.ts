/** Options that a proof passes to the processes it starts. */
export interface ProofConfig {
  /** Schedulers: the name of one of the proofs' policies, see policies.ts. */
  readonly policy?: string;
  /** Schedulers. */
  readonly horizonMs?: number;
  /** Schedulers: types of events to send, in addition to those of leaders. */
  readonly tells?: readonly string[];
  /** Workers. */
  readonly concurrency?: number;
}

/** Limit of concurrent jobs for each tenant, over all queues. */
export const limitOfProof = 5;

/** Rate of all jobs together. */
export const rateOfProof = { perSecond: 100, burst: 10 } as const;
