import type { Gate } from '../../gate.ts';
import type { Rate } from '../../snapshot.ts';
import { openBuckets, writeBuckets } from '../state/bucket-gate.ts';
import type { Bucket, Buckets } from '../state/buckets.ts';
import { fullBucket, present } from '../state/buckets.ts';
import { sayRate } from '../state/format.ts';
import { soonest } from '../../../runtime/soonest.ts';
import type { Grant, SharedRules } from './grant.ts';
import { grantOf, heldVerdict, sharedGate, valueOf, whyWithoutPart } from './grant.ts';

/** State of a shared rate after a plan: its preparation tells it to the home of the limit. */
export type SharedFlow = {
  /** Number of the grant that the plan kept to; 0: none yet in this term. */
  readonly number: number;
  /** Part of the burst and of the rate that the bucket fills by. */
  readonly part: number;
  readonly rate: number;
  readonly buckets: Buckets;
  /** Jobs taken in this term. */
  readonly taken: number;
  /** Set when the plan held jobs: the installation could use a greater part. */
  readonly held: boolean;
};

/** The bucket of a new leader is empty: what the last leader took from it last is not known. */
const unused: SharedFlow = { number: 0, part: 0, rate: 0, buckets: {}, taken: 0, held: false };

/**
 * Limits dispatches to the part of a shared rate that this installation has leased, by a bucket of its own. Rates and
 * bursts add up: the buckets of all installations together never hold more than the burst, and never fill faster than
 * the rate, so every window over all of them holds. A smaller part cuts the bucket at once. A greater one adds nothing
 * at once, and counts from a time at which the others surely had less. Without a lease, it holds.
 */
export function sharedRate(rules: SharedRules): Gate<SharedFlow> {
  const { name, when } = rules;
  return {
    ...sharedGate(rules),
    initial: unused,
    restore: () => unused,
    open: (snapshot, state) => {
      const { nowMs } = snapshot;
      const grant = grantOf(snapshot, name);
      const { number, part, rate, waitsUntilMs } = adopted(state, grant, nowMs);
      const limit = { perSecond: rate, burst: part };
      const before = filled(state, limit, nowMs);
      let held = false;
      let { taken } = state;
      const inner = openBuckets(
        {
          groupOf: (job) => valueOf(when, job),
          costsOf: null,
          rateOf: () => limit,
          label: () => name,
          held: heldVerdict(rules),
        },
        snapshot,
        before,
      );
      return {
        ...inner,
        admits: (job, lane, member) => {
          const leased = grant !== undefined || valueOf(when, job) === null;
          const verdict = leased ? inner.admits(job, lane, member) : heldVerdict(rules);
          held ||= verdict !== 'admit';
          return verdict;
        },
        take: (job, lane, member) => {
          inner.take?.(job, lane, member);
          if (valueOf(when, job) !== null) taken += 1;
        },
        why: (job, lane) => {
          if (part === 0 || grant === undefined) return whyWithoutPart(rules, grant);
          const ofAll = `${grant.size} at once and ${sayRate(grant.perSecond ?? 0, '')}`;
          const message = `this installation's part of the shared limit is ${part} at once and ${sayRate(rate, '')}, of ${ofAll}, all used`;
          return { ...inner.why(job, lane), message };
        },
        nextMs: () => soonest(waitsUntilMs, inner.nextMs?.() ?? null),
        state: () => {
          const buckets = (inner.state?.() ?? before) as Buckets;
          const after = { number, part, rate, buckets, taken, held };
          const names = Object.keys(after) as (keyof SharedFlow)[];
          return names.every((member) => after[member] === state[member]) ? state : after;
        },
      };
    },
    written: (state, written) => {
      const buckets = writeBuckets(state.buckets, written);
      return buckets === state.buckets ? state : { ...state, buckets };
    },
  };
}

/** Parts that a plan keeps to. `waitsUntilMs`: the time from which a greater one counts. */
function adopted(
  state: SharedFlow,
  grant: Grant | undefined,
  nowMs: number,
): Pick<SharedFlow, 'number' | 'part' | 'rate'> & { readonly waitsUntilMs: number | null } {
  if (grant === undefined) return { ...state, waitsUntilMs: null };
  const { number, part, rate, fromMs } = grant;
  const more = part > state.part || rate > state.rate;
  // this snapshot may be older than the answer: then others had the difference when it was taken
  if (!more || nowMs >= fromMs) return { number, part, rate, waitsUntilMs: null };
  const { part: lastPart, rate: lastRate } = state;
  return {
    number: state.number,
    part: Math.min(part, lastPart),
    rate: Math.min(rate, lastRate),
    waitsUntilMs: fromMs,
  };
}

/** Returns the bucket, filled until now by the last parts, and cut to the present ones. */
function filled({ part, rate, buckets }: SharedFlow, limit: Rate, nowMs: number): Buckets {
  // a bucket that is not stored has been full for a while, by the parts that it had
  const last: Bucket = buckets[''] ?? fullBucket({ perSecond: rate, burst: part }, nowMs);
  const bucket = present(last, limit, nowMs);
  return bucket === buckets[''] ? buckets : { '': bucket };
}
