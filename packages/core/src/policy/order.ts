import type { Json } from '../job/job.ts';
import type { Gate } from './gate.ts';
import type { Needs, Preparation, Written } from './policy.ts';
import type { Candidate, JobFacts, Lane, Snapshot } from './snapshot.ts';

/**
 * A scheduling rule that says whose job goes first. It chooses among lanes; within a lane, jobs go by priority, then `seq`. Its
 * answer must not depend on the order of `snapshot.lanes`.
 */
export interface Order<State extends Json = Json> {
  /** The name of its state; different from those of the gates. */
  readonly name: string;
  /** Only where it keeps state. */
  readonly initial?: State;
  /** Default: takes the saved state as it is. */
  restore?(saved: Json, savedMs: number): State;
  open(snapshot: Snapshot, state: State, heads: Heads): OpenOrder<State>;
  written?(state: State, written: Written): State;
  /** Whether `job` should go before `other`, which is scheduled but not leased: then `other` may be recalled. */
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
  /** Gates that belong to it (a share's burst maximum). */
  readonly gates?: readonly Gate[];
  readonly needs?: Needs;
  readonly prepare?: Omit<Preparation, 'name'>;
  /** Its state may be saved up to a second late. */
  readonly soft?: boolean;
}

/** The head of each lane during one plan: it moves on as jobs are taken or passed over. */
export interface Heads {
  /** Undefined: nothing of the lane is left for this plan. */
  readonly of: (lane: Lane) => Candidate | undefined;
  /** The lanes of the snapshot without those of which gates hold everything already: an order need not go through those. */
  readonly lanes: () => readonly Lane[];
}

/** An order during one plan. */
export interface OpenOrder<State extends Json = Json> {
  /** The lane whose head should go next; undefined: no lane has one. Asked again without `taken` or `passed` it says the same. */
  readonly next: () => Lane | undefined;
  /** A job of the lane goes; the lane's head has moved on. `member`: it joins the bundle of the job before it, and takes no slot. */
  readonly taken: (lane: Lane, job: Candidate, member?: boolean) => void;
  /** A gate holds the lane's head; it has moved on, or is gone. */
  readonly passed: (lane: Lane, job: Candidate) => void;
  /** No job finds a place in that pool any more in this plan: its lanes need not be offered. Where there is none, each is passed. */
  readonly full?: (pool: string) => void;
  /** After the plan. */
  readonly state?: () => State;
  /** What it forecasts (missed deadlines), for status: counts by name. */
  readonly forecast?: () => Readonly<Record<string, number>>;
}
