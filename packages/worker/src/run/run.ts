import type { Codec, JobContext, Parsed, Task } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { shapeProblem } from '@pgqueue/core/internal';
import type { Attempt, AttemptEvents, Leased } from '../attempt/attempt.ts';
import type { Ending } from '../lease/ending.ts';
import type { Isolation } from '../isolation/isolation.ts';
import { decodeJob } from '../codec/encoding.ts';
import type { LeaseParts } from '../attempt/lease-calls.ts';

/** Ending of one attempt. The endings of a bundle are reported together. */
export interface AttemptEnding {
  readonly attempt: Attempt;
  readonly ending: Ending;
}

/** Parts that all runs of handlers share. */
export interface RunParts extends LeaseParts {
  readonly isolation: Isolation;
  /**
   * Begins an attempt, which counts as running until `leave`. Without `on` it ends by itself at its timeout.
   * Never throws: from here on the attempt has an end, whatever fails.
   */
  readonly begin: (job: ClaimedJob, leased: Leased, on?: Omit<AttemptEvents, 'over'>) => Attempt;
  /** Opens the span of an attempt, and tells observers that it has begun. */
  readonly announce: (attempt: Attempt) => void;
  /** Ends the attempts that are not over yet. */
  readonly end: (endings: readonly AttemptEnding[]) => void;
  /**
   * Ends an attempt whose handler has returned nothing, as `end` would. Most attempts end like this, and this
   * costs less.
   */
  readonly endPlain: (attempt: Attempt) => void;
  /** Returns a function that calls the handlers of single attempts, one after another. */
  readonly callInTurn: () => <Payload, Returned>(
    attempt: Attempt,
    handler: (payload: Payload, context: JobContext) => Returned,
    payload: Payload,
    context: JobContext,
  ) => Returned;
  /** Calls the handler of a bundle. */
  readonly call: <Returned>(attempts: readonly Attempt[], run: () => Returned) => Returned;
  /** True when jobs of a batch that have not begun are to be given back. */
  readonly stopping: () => boolean;
  /** Removes an attempt whose handler has returned. */
  readonly leave: (attempt: Attempt) => void;
}

/** Aborts and ends attempts whose leases are about to end; later results of their handlers are ignored. */
export function timeOut({ observe, end }: RunParts, attempts: readonly Attempt[]): void {
  const live = attempts.filter((attempt) => attempt.live);
  for (const attempt of live) {
    const { job, timeoutMs } = attempt;
    observe({ type: 'job.timeout', job: job.id, task: job.task, timeoutMs });
    attempt.abort('timeout');
  }
  end(live.map((attempt) => ({ attempt, ending: { kind: 'timeout', timeoutMs: attempt.timeoutMs } })));
}

/** A payload for the handler, or the ending of an attempt without one. */
export type Checked =
  | { readonly kind: 'payload'; readonly payload: unknown }
  | Extract<Ending, { readonly kind: 'invalid' | 'threw' }>;

/**
 * Decodes a job, brings its payload to the current version, and validates it; never throws. Without a
 * codec, an encrypted job waits for one.
 */
export function checkPayload(
  task: Task,
  job: Pick<ClaimedJob, 'id' | 'task' | 'payload' | 'payloadVersion' | 'checkpoint'>,
  codec: Codec | undefined,
): Promise<Checked> | Checked {
  const undecoded = decodeJob(codec, job);
  if (undecoded !== undefined) return undecoded;
  const dangerous = shapeProblem(job.payload);
  if (dangerous !== undefined) return { kind: 'invalid', problems: [`it ${dangerous}`] };
  let payload: unknown;
  try {
    payload = task.upcast(job.payload, job.payloadVersion);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: 'invalid', problems: [`it can't be brought to version ${task.version}: ${why}`] };
  }
  try {
    const parsed = task.parse(payload);
    return 'ok' in parsed ? checked(parsed) : parsed.then(checked, threw);
  } catch (error) {
    return threw(error);
  }
}

function checked(parsed: Parsed<unknown>): Checked {
  if (parsed.ok) return { kind: 'payload', payload: parsed.payload };
  return { kind: 'invalid', problems: parsed.problems };
}

function threw(error: unknown): Checked {
  return { kind: 'threw', error };
}
