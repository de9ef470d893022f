import type { Json, PolicyState } from '@pgqueue/core';

/** Decides which parts of a policy's state to save, and when. */
export interface Saving {
  /**
   * Returns the parts to save with a plan; null: none. `busy`: the plan dispatches jobs or counts ended
   * attempts.
   */
  readonly due: (state: PolicyState, busy: boolean) => SavedParts | null;
  /** Call when the due parts were saved. `state`: the plan's state after `written`. */
  readonly saved: (due: SavedParts | null, state: PolicyState, busy: boolean) => void;
  /** Starts a term with a state that is completely saved. */
  readonly begin: (state: PolicyState) => void;
}

export type SavedParts = Readonly<Record<string, Json>>;

export interface SavingOptions {
  readonly softParts: readonly string[];
  /** Reports whether a part can be saved; a part that can't is reported as a fault. */
  readonly savable: (part: string, value: Json) => boolean;
  readonly clock: () => number;
}

/** Longest delay before a changed soft part is saved, in milliseconds. */
const softMs = 1_000;

/**
 * Creates the writer. Exact parts (rates) are saved with each batch that changes them, so the next leader
 * knows every charge of a batch. Soft parts (fairness) are saved with a batch once a second, or alone if no
 * batch follows.
 */
export function createSaving({ softParts, savable, clock }: SavingOptions): Saving {
  const soft = new Set(softParts);
  /** Each part's value when last saved, or its value after `written`. */
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
