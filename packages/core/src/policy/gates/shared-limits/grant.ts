import { answerOf } from '../../answer.ts';
import type { Gate, OpenGate, Verdict } from '../../gate.ts';
import type { Preparation } from '../../policy.ts';
import { neverMs } from '../../policy.ts';
import type { JobFacts, Snapshot } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import { sayError } from '../state/format.ts';

/**
 * Part of a limit over several installations, as the gate's `prepare` fetches it: this installation keeps to it. The
 * preparation drops it when its lease ends.
 */
export type Grant = {
  /** Number of the answer. */
  readonly number: number;
  /** Jobs that may be in flight, or this installation's part of the burst. */
  readonly part: number;
  /** This installation's part of the rate, a second. 0 for a concurrency. */
  readonly rate: number;
  /** The limit over all installations. */
  readonly size: number;
  /** The rate over all installations. Null: the limit is a concurrency. */
  readonly perSecond: number | null;
  /** Time of this installation's database that is later than the answer. */
  readonly fromMs: number;
};

/** Rules of one shared limit. */
export interface SharedRules {
  readonly name: string;
  /** Name of the installation that keeps the limit. */
  readonly home: string;
  /** Tells the jobs that the limit is for. Default: all. */
  readonly when?: ((job: JobFacts) => boolean) | undefined;
  /** Set when `when` depends on the job's queue and key only. */
  readonly lane?: boolean | undefined;
  readonly prepare: Omit<Preparation, 'name'>;
}

/** Members that gates of both kinds have alike. */
export function sharedGate({
  name,
  when,
  lane = false,
  prepare,
}: SharedRules): Pick<Gate, 'name' | 'onError' | 'prepare' | 'groups' | 'soft'> {
  return {
    name,
    onError: 'hold',
    prepare,
    groups: { of: (job) => valueOf(when, job), lane: lane || when === undefined },
    // nothing is restored: a new leader begins with a part that it leases itself
    soft: true,
  };
}

/** Returns the one value that jobs of the limit count under; null: the limit is not for this job. */
export function valueOf(when: SharedRules['when'], job: JobFacts): string | null {
  if (when === undefined) return '';
  try {
    return answerOf('when', when(job)) ? '' : null;
  } catch (error) {
    throw new Error(`when failed for job ${job.id}: ${sayError(error)}`, { cause: error });
  }
}

export function grantOf({ prepared }: Snapshot, name: string): Grant | undefined {
  return own(prepared, name)?.value as Grant | undefined;
}

export function heldVerdict({ when, lane = false }: SharedRules): Exclude<Verdict, 'admit'> {
  return lane || when === undefined ? 'hold_lane' : 'hold';
}

/** Explains why a job is held that the gate would admit with a greater part. */
export function whyWithoutPart({ home }: SharedRules, grant: Grant | undefined): ReturnType<OpenGate['why']> {
  if (grant === undefined)
    return {
      message: `this installation has no lease of the shared limit, because its home ${home} has not answered`,
      untilMs: null,
    };
  if (grant.size === 0)
    return { message: 'the shared limit is 0, and nothing goes until it is raised', untilMs: neverMs };
  return {
    message: `this installation has no part yet of the shared limit of ${grant.size}; it gets one as others give theirs back`,
    untilMs: null,
  };
}
