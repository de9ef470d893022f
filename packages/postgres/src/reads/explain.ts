import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';
import type { QueueLimits } from './queue-settings.ts';

/** Facts of the database that explain one unfinished job, with the limits of its queue. */
export interface WaitFacts extends Omit<QueueLimits, 'weight'> {
  readonly paused: boolean;
  readonly pool: string;
  readonly expired: boolean;
  readonly dueInMs: number | null;
  readonly startedAgoMs: number | null;
  readonly leaseEndsInMs: number | null;
  readonly leader: string | null;
  /** Live nodes of the pool (`nodes`), and those of them that can run the job (`capable`). */
  readonly nodes: number;
  readonly capable: number;
  /** Slots of the capable nodes, those of them that run something, and the pool's ready work items. */
  readonly slots: number;
  readonly running: number;
  readonly ready: number;
  /** Ready items of the pool in front of this job's own. */
  readonly itemsAhead: number;
  /** Work items of its queue and of its key, without its own. A bundle counts once. */
  readonly queueInFlight: number;
  readonly keyInFlight: number;
  /**
   * Due jobs of the same queue and key that come first, counted up to 100,000; null while the job is delayed.
   */
  readonly jobsAhead: number | null;
  /** Id of the flow until whose end the job is suspended; null: none. */
  readonly waitsFor: string | null;
  readonly nodeState: string | null;
  readonly nodeBeatAgoMs: number | null;
  readonly cancelAsked: boolean;
}

export const aheadMax = 100_000;

/** Reads the facts by the SQL function `wait_facts`. Returns undefined if the job is not in QUEUE. */
export function readWaitFacts(target: Target, id: string): Promise<WaitFacts | undefined> {
  return ask(target, 'wait_facts($1::uuid, $2)', [id, aheadMax]);
}
