import type { Json } from '../../job/job.ts';
import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, oneOf, optional } from '../../options/options.ts';
import { aName, aPreparation, checkPart } from '../check-part.ts';
import type { Gate, Verdict } from '../gate.ts';
import type { Preparation } from '../policy.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/** What an asynchronous fetch brought last: the value, and when (Unix ms). Null: none has succeeded yet. */
export interface Fetched<Value extends Json> {
  readonly value: Value;
  readonly atMs: number;
}

/** A rule of one function: see {@link gate}. */
export interface CustomGateOptions<Value extends Json> {
  /** Its reason in `status` and `explain`. */
  readonly name: string;
  /** True, or why the job has to wait, in words. Must depend on its arguments only: no clock, no randomness, no I/O. */
  readonly admits: (job: JobFacts, snapshot: Snapshot, fetched: Fetched<Value> | null) => true | string;
  /** Data from outside, fetched beside the ticks: the third argument of `admits`. */
  readonly prepare?: Omit<Preparation, 'name' | 'fetch'> & {
    readonly fetch: (signal: AbortSignal) => Promise<Value>;
  };
  /** Default `ignore`: where it fails, the job goes. */
  readonly onError?: 'hold' | 'ignore';
  /** A promise that it depends on the job's queue and key only: then the rest of a key need not be asked about. */
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
 * A gate of one function. It keeps no state, and can't see what a plan has taken already: for limits there are
 * `concurrency` and `rate`, or the interface {@link Gate}.
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
  return {
    name,
    onError,
    ...(prepare === undefined ? {} : { prepare }),
    open: (snapshot) => {
      const fetched = (own(snapshot.prepared, name) ?? null) as Fetched<Value> | null;
      const ask = (job: JobFacts): true | string => {
        const answer: unknown = admits(job, snapshot, fetched);
        if (answer === true || typeof answer === 'string') return answer;
        throw new Error(`admits must return true, or why job ${job.id} has to wait`);
      };
      return {
        admits: (job) => (ask(job) === true ? 'admit' : held),
        why: (job) => ({ message: String(ask(job)), untilMs: null }),
      };
    },
  };
}
