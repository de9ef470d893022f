import { answerOf } from '../answer.ts';
import type { Json } from '../../job/job.ts';
import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, oneOf, optional } from '../../options/options.ts';
import { aName, aPreparation, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Gate, Verdict } from '../gate.ts';
import type { Preparation } from '../policy.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/** Result of the last successful fetch: the value, and the time at which that fetch began (Unix ms). */
export interface Fetched<Value extends Json> {
  readonly value: Value;
  readonly atMs: number;
}

/** Options of {@link gate}: a scheduling rule made of one function. */
export interface CustomGateOptions<Value extends Json> {
  /** Reason that `status` and `explain` show for the jobs it holds. */
  readonly name: string;
  /**
   * Returns true, or the reason why the job has to wait. Must depend on its arguments only: no clock, no
   * randomness, no I/O. `fetched` is null until a fetch has succeeded.
   */
  readonly admits: (job: JobFacts, snapshot: Snapshot, fetched: Fetched<Value> | null) => true | string;
  /** Fetches data from outside, beside the ticks. The result is the third argument of `admits`. */
  readonly prepare?: Omit<Preparation, 'name' | 'fetch'> & {
    readonly fetch: (signal: AbortSignal) => Promise<Value>;
  };
  /** Decides about a job for which `admits` throws. Default `ignore`: the job goes. */
  readonly onError?: 'hold' | 'ignore';
  /**
   * Promises that `admits` depends on the job's queue and key only. Then one held job holds its whole lane,
   * and the other jobs of the key are not asked about.
   */
  readonly lane?: boolean;
}

const shape: Shape<CustomGateOptions<Json>> = {
  name: aName,
  admits: aFunction,
  prepare: optional(aPreparation),
  onError: optional(oneOf('hold', 'ignore')),
  lane: optional(aFlag),
};

/**
 * Makes a gate from one function. The gate keeps no state and can't see which jobs a plan has already taken.
 * For limits use `concurrency` or `rate`, or implement {@link Gate}.
 * @example
 * gate({
 *   name: 'business_hours',
 *   admits: ({ queue }, { nowMs }) =>
 *     queue !== 'calls' || new Date(nowMs).getUTCHours() < 18 ? true : 'nobody is called in the evening',
 * });
 * @throws {PgQueueError} `configuration`
 */
export function gate<Value extends Json = Json>(options: CustomGateOptions<Value>): Gate {
  checkPart('gate', 'gate', { options, shape });
  const { name, admits, prepare, onError = 'ignore', lane = false } = options;
  const held: Verdict = lane ? 'hold_lane' : 'hold';
  return madeWith(options, {
    name,
    onError,
    ...(prepare === undefined ? {} : { prepare }),
    open: (snapshot) => {
      const fetched = (own(snapshot.prepared, name) ?? null) as Fetched<Value> | null;
      const ask = (job: JobFacts): true | string => {
        const answer: unknown = answerOf('admits', admits(job, snapshot, fetched));
        if (answer === true || typeof answer === 'string') return answer;
        throw new Error(`admits must return true, or why job ${job.id} has to wait`);
      };
      return {
        admits: (job) => (ask(job) === true ? 'admit' : held),
        why: (job) => ({ message: String(ask(job)), untilMs: null }),
      };
    },
  } satisfies Gate);
}
