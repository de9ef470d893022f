import { randomUUID } from 'node:crypto';
import type { Undo, UndoResult } from '../contract.ts';
import { Problem } from '../problem.ts';

/** An action that has changed something, as the audit names it, and its revert. */
export interface Undoable {
  readonly action: string;
  readonly target: string | null;
  /** Things that its undo changes, for the audit. */
  readonly details: Readonly<Record<string, unknown>>;
  /** Leaves alone what has changed since. */
  readonly revert: () => Promise<UndoResult>;
}

/** Actions of this process that can still be undone: up to 100, for 10 minutes each. */
export interface UndoStore {
  readonly keep: (undoable: Undoable) => Undo;
  /** Returns an action and removes it, so that it is undone once. @throws {Problem} `not_found` */
  readonly take: (id: string) => Undoable;
}

const keptMs = 600_000;
const keptMax = 100;

export function createUndoStore(): UndoStore {
  const kept = new Map<string, { readonly undoable: Undoable; readonly untilMs: number }>();
  return {
    keep: (undoable) => {
      const now = Date.now();
      for (const [id, { untilMs }] of kept) if (untilMs <= now || kept.size >= keptMax) kept.delete(id);
      const id = randomUUID();
      kept.set(id, { undoable, untilMs: now + keptMs });
      return { id, until: new Date(now + keptMs).toISOString() };
    },
    take: (id) => {
      const found = kept.get(id);
      kept.delete(id);
      if (found === undefined || found.untilMs <= Date.now()) {
        throw new Problem('not_found', 'this can not be undone any more');
      }
      return found.undoable;
    },
  };
}
