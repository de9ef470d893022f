/** What a proof tells the processes it starts. */
export interface ProofConfig {
  /** Schedulers: which of the proofs' policies, see policies.ts. */
  readonly policy?: string;
  /** Schedulers. */
  readonly horizonMs?: number;
  /** Schedulers: types of events, beside those of leaders. */
  readonly tells?: readonly string[];
  /** Workers. */
  readonly concurrency?: number;
}

/** Of each tenant, over all queues. */
export const limitOfProof = 5;

/** Of all jobs together. */
export const rateOfProof = { perSecond: 100, burst: 10 } as const;
