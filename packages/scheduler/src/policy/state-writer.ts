import type { Json, PolicyState } from '@pgqueue/core';

/** What of a policy's state is to be saved, and when. */
export interface Saving {
  /** What goes with a plan; null: nothing. `busy`: the plan dispatches jobs, or counts attempts that ended. */
  readonly due: (state: PolicyState, busy: boolean) => Parts | null;
  /** What was due was saved; `state`: the plan's, once it was told what was written. */
  readonly saved: (due: Parts | null, state: PolicyState, busy: boolean) => void;
  /** A reign begins with this state, all of it saved. */
  readonly begin: (state: PolicyState) => void;
}

export type Parts = Readonly<Record<string, Json>>;

export interface SavingOptions {
  readonly softParts: readonly string[];
  /** Whether a part can be saved; that it can't is reported. */
  readonly savable: (part: string, value: Json) => boolean;
  readonly clock: () => number;
}

/** How late a soft part may be saved. */
const softMs = 1_000;

/**
 * Exact parts (rates) go with each batch that changes them: the leader that comes after a batch knows all of what it was charged. Soft
 * parts (fairness) go with a batch once a second; where no other follows, they go alone.
 */
export function createSaving({ softParts, savable, clock }: SavingOptions): Saving {
  const soft = new Set(softParts);
  /** Parts as they were saved last, or became of it when the plan was told what was written. */
  const clean = new Map<string, Json>();
  let softAt = -Infinity;
  let owed = false;

  return {
    due: (state, busy) => {
      const late = clock() - softAt >= softMs;
      if (!busy && !(late && owed)) return null;
      const due = Object.entries(state).filter(
        ([part, value]) =>
          clean.get(part) !== value && (soft.has(part) ? late : busy) && savable(part, value),
      );
      return due.length === 0 ? null : Object.fromEntries(due);
    },
    saved: (due, state, busy) => {
      const parts = Object.keys(due ?? {});
      for (const part of parts) {
        const value = state[part];
        if (value !== undefined) clean.set(part, value);
      }
      if (parts.some((part) => soft.has(part))) [softAt, owed] = [clock(), false];
      else if (busy) owed = softParts.some((part) => clean.get(part) !== state[part]);
    },
    begin: (state) => {
      clean.clear();
      for (const [part, value] of Object.entries(state)) clean.set(part, value);
      [softAt, owed] = [-Infinity, false];
    },
  };
}
