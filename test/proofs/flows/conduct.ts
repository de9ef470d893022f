// Instructions to the jobs of the proof, in their payload.
import { z } from 'zod';

/** A job that a running job adds to its own step. It does nothing but end. */
const child = z.object({ id: z.uuid(), queue: z.string(), ms: z.number() });

export const conduct = z.object({
  flow: z.uuid(),
  step: z.int(),
  ms: z.number(),
  /** Attempts that end in an error. */
  fails: z.int().default(0),
  /** Gives up as long as its flow was retried less often. */
  dies: z.int().default(0),
  /** The first attempt takes longer than its lease, and does not heed its signal. */
  hangs: z.boolean().default(false),
  /** Writes in the transaction of its settlement. */
  effect: z.boolean().default(false),
  /**
   * Draws a value in a step, sleeps, waits for a signal that never comes, for some that come as the job is
   * suspended, and then for jobs of its own.
   */
  durable: z.object({ kids: z.int(), napMs: z.number(), waits: z.boolean(), told: z.int() }).optional(),
  grows: z
    .object({
      /** `add`: before its own end; `fan_out`: with it. */
      how: z.enum(['add', 'fan_out']),
      /** Repeats the call, with the same ids. */
      twice: z.boolean(),
      children: z.array(child),
    })
    .optional(),
});

export type Conduct = z.input<typeof conduct>;
export type Child = z.infer<typeof child>;

/** A job as `start_flow` and `add_jobs` take it. */
export interface FlowJob {
  readonly id: string;
  readonly task: 'flow-step' | 'flow-grow';
  readonly queue: string;
  readonly key: string;
  readonly delay_ms: number | null;
  readonly expires_at: string | null;
  readonly timeout_ms: number;
  readonly max_tries: number;
  readonly max_crashes: number;
  readonly retry: object;
  readonly payload: Conduct;
}

/** Lease of each job, in milliseconds. */
export const leaseMs = 2_000;

/** Lease of a job that hangs, and how long it does, in milliseconds: others have run it by then. */
export const [shortLeaseMs, hangMs] = [400, 1_500] as const;

/** A job may die of its own errors, and not of the faults. */
export const patience = { maxTries: 4, maxCrashes: 1_000 } as const;

export function jobOf(own: Pick<FlowJob, 'id' | 'task' | 'queue' | 'payload'> & Partial<FlowJob>): FlowJob {
  return {
    key: '',
    delay_ms: null,
    expires_at: null,
    timeout_ms: leaseMs,
    max_tries: patience.maxTries,
    max_crashes: patience.maxCrashes,
    retry: { kind: 'fixed', baseMs: 30, jitter: 0 },
    ...own,
  };
}

/** The jobs that `grows` adds. */
export function childrenOf({ flow, step }: Conduct, children: readonly Child[]): readonly FlowJob[] {
  return children.map(({ id, queue, ms }) =>
    jobOf({ id, task: 'flow-step', queue, payload: { flow, step, ms } }),
  );
}
