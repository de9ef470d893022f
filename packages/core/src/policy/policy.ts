import type { Plan } from './plan.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * Decides which waiting jobs are dispatched next. Synchronous and deterministic: no clock, no randomness, no I/O; all it may
 * know is in the snapshot and its state. The same snapshot in another order gives the same plan. One that throws, or returns a
 * plan that can't be written, is reported (event `policy.failed`), and that tick falls back to {@link roundRobin}.
 */
export interface Policy<State = unknown> {
  /** Its state is saved under this name. */
  readonly name: string;
  /** The state of the very first plan: plain JSON. */
  readonly initial: State;
  /** Makes a state of what the last leader saved, which an older release may have written. Default: takes it as it is. */
  restore?(saved: unknown): State;
  /** By queue, the key that was served last: the next snapshot looks at the keys behind it first. */
  cursors(state: State): Readonly<Record<string, string>>;
  plan(snapshot: Snapshot, state: State): Plan<State>;
}
