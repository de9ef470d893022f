/** What a proof tells the processes it starts: one JSON value in the environment, PGQUEUE_PROOF. */
export interface ProofConfig {
  /** Schedulers: which of the proofs' policies, see policies.ts. */
  readonly policy?: string;
  /** Schedulers. */
  readonly horizonMs?: number;
  /** Schedulers: whether every tick is told to the proof. */
  readonly ticks?: boolean;
  /** Workers. */
  readonly concurrency?: number;
}

export function proofConfig(): ProofConfig {
  return JSON.parse(process.env['PGQUEUE_PROOF'] ?? '{}') as ProofConfig;
}

/** Of each tenant, over all queues. */
export const limitOfProof = 5;

/** Of all jobs together. */
export const rateOfProof = { perSecond: 100, burst: 10 } as const;
