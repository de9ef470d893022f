import type { ClaimedJob, JobContext, Parsed, Task } from '@pgqueue/core';
import { shapeProblem } from '@pgqueue/core';
import type { Attempt, AttemptEvents, Leased } from '../attempt/attempt.ts';
import type { Ending } from '../lease/ending.ts';
import type { Isolation } from '../isolation/isolation.ts';
import type { LeaseParts } from '../attempt/lease-calls.ts';

/** How an attempt ended; those of a bundle are told together. */
export interface AttemptEnding {
  readonly attempt: Attempt;
  readonly ending: Ending;
}

/** What runs of handlers have in common. */
export interface RunParts extends LeaseParts {
  readonly isolation: Isolation;
  /**
   * Begins an attempt, which counts among those that run until it leaves. Without `on` it ends by itself at its timeout. It never
   * throws: from here on the attempt has an end, whatever fails.
   */
  readonly begin: (job: ClaimedJob, leased: Leased, on?: Omit<AttemptEvents, 'over'>) => Attempt;
  /** Opens the span of an attempt, and tells observers that it has begun. */
  readonly announce: (attempt: Attempt) => void;
  /** Ends those attempts that are not over yet. */
  readonly end: (endings: readonly AttemptEnding[]) => void;
  /** Ends an attempt whose handler has returned nothing. Does what `end` does; most attempts end so, and cost less that way. */
  readonly endPlain: (attempt: Attempt) => void;
  /** Calls the handler of one attempt. */
  readonly callOne: <Payload, Returned>(
    attempt: Attempt,
    handler: (payload: Payload, context: JobContext) => Returned,
    payload: Payload,
    context: JobContext,
  ) => Returned;
  /** The same for the jobs of a batch, one after another. */
  readonly callInTurn: () => RunParts['callOne'];
  /** Calls the handler of a bundle. */
  readonly call: <Returned>(attempts: readonly Attempt[], run: () => Returned) => Returned;
  /** Jobs of a batch that have not begun are to be given back. */
  readonly stopping: () => boolean;
  /** Its handler has returned. */
  readonly leave: (attempt: Attempt) => void;
}

/** Aborts and ends attempts whose leases are about to end; what their handlers do later is ignored. */
export function timeOut({ observe, end }: RunParts, attempts: readonly Attempt[]): void {
  const live = attempts.filter((attempt) => attempt.live);
  for (const attempt of live) {
    const { job, timeoutMs } = attempt;
    observe({ type: 'job.timeout', job: job.id, task: job.task, timeoutMs });
    attempt.abort('timeout');
  }
  end(live.map((attempt) => ({ attempt, ending: { kind: 'timeout', timeoutMs: attempt.timeoutMs } })));
}

/** A payload on its way to the handler, or how the attempt ends without one. */
export type Checked =
  | { readonly kind: 'payload'; readonly payload: unknown }
  | Extract<Ending, { readonly kind: 'invalid' | 'threw' }>;

/** Brings a payload to the current version, and checks it; never throws. */
export function checkPayload(
  task: Task,
  job: Pick<ClaimedJob, 'payload' | 'payloadVersion'>,
): Promise<Checked> | Checked {
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
