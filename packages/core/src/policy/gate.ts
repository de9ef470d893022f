import type { Json } from '../job/job.ts';
import type { Hold, Needs, Preparation, Written } from './policy.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from './snapshot.ts';

/** `hold_lane`: neither this job nor any other of its lane can go in this plan. */
export type Verdict = 'admit' | 'hold' | 'hold_lane';

/** Tells which waiting jobs are alike to a gate: see {@link Gate.groups}. */
export interface JobGroups {
  /** The name of the group; null: the gate admits the job whatever else there is. Must depend on the job alone, and say the same each time. */
  readonly of: (job: JobFacts) => string | null;
  /** Whether `of` depends on the job's queue and key only. Default false. */
  readonly lane?: boolean;
}

/**
 * A scheduling rule that can hold a job back. It is asked about a job right before that would be dispatched, and told of every job
 * that is. Where several gates are composed, a job goes if all of them admit it.
 */
export interface Gate<State extends Json = Json> {
  /** Different for each gate of a policy; its reason in `status`, and the name of its state. */
  readonly name: string;
  /** Only where it keeps state. */
  readonly initial?: State;
  /** Default: takes the saved state as it is. */
  restore?(saved: Json, savedMs: number): State;
  /** Begins a plan. `state`: `initial`, or what the last plan left. */
  open(snapshot: Snapshot, state: State): OpenGate<State>;
  /** The state of a plan, once it is known what of it was written, and when. */
  written?(state: State, written: Written): State;
  /**
   * What happens where it throws. `hold`: the job that it was asked about is held, with the failure as its reason (limits, which
   * must never be exceeded). `ignore`: it is left out of this plan. Either way the failure is reported. Default `ignore`.
   */
  readonly onError?: 'hold' | 'ignore';
  readonly needs?: Needs;
  readonly prepare?: Omit<Preparation, 'name'>;
  /** Its state may be saved up to a second late. */
  readonly soft?: boolean;
  /**
   * A promise that jobs of one group are alike: at any moment of a plan `admits` says the same of each of them (but of members of a
   * bundle), and once it holds one of them, it holds them all until the plan ends. Then it is asked about a group that it holds once a
   * plan, however many jobs wait in it. Default: it is asked about every job.
   */
  readonly groups?: JobGroups;
  /**
   * A promise that what it holds may go by time alone only when {@link OpenGate.nextMs} says so. Then a simulation does not ask again
   * before that, as long as nothing else has changed. Default false.
   */
  readonly tellsTime?: boolean;
}

/** A gate during one plan. */
export interface OpenGate<State extends Json = Json> {
  /** Changes nothing. `member`: the job would join a bundle whose first job was admitted, and takes no slot of its own. */
  readonly admits: (job: Candidate, lane: Lane, member: boolean) => Verdict;
  /** The job goes. */
  readonly take?: (job: Candidate, lane: Lane, member: boolean) => void;
  /** Of a job that it does not admit. Called for few. */
  readonly why: (job: Candidate, lane: Lane) => Omit<Hold, 'gate'>;
  /** The earliest time at which something that it held may go, by time alone: the next plan is made then. */
  readonly nextMs?: () => number | null;
  /** Lanes that it held because they are not fresh: they are read anew, and planned at once. */
  readonly unread?: () => readonly Lane[];
  /** After the plan. */
  readonly state?: () => State;
  /** After the plan: what failed, and was worked around. It is reported like what a gate throws. */
  readonly faults?: () => readonly unknown[];
}

/** What became of a job; `gate`: the first that holds it. */
export interface Judged {
  readonly verdict: Verdict;
  readonly gate: string;
}
