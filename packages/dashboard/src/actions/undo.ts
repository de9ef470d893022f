import { randomUUID } from 'node:crypto';
import type { Undo, UndoResult } from '../contract.ts';
import { Problem } from '../problem.ts';

/** Reverts one action. */
export type Revert = () => Promise<UndoResult>;

/** Actions of this process that can still be undone: up to 100, for 10 minutes each. */
export interface UndoStore {
  readonly keep: (revert: Revert) => Undo;
  /** Returns the revert of an action and removes it, so that it runs once. @throws {Problem} `not_found` */
  readonly take: (id: string) => Revert;
}

const keptMs = 600_000;
const keptMax = 100;

export function createUndoStore(): UndoStore {
  const kept = new Map<string, { readonly revert: Revert; readonly untilMs: number }>();
  return {
    keep: (revert) => {
      const now = Date.now();
      for (const [id, { untilMs }] of kept) if (untilMs <= now || kept.size >= keptMax) kept.delete(id);
      const id = randomUUID();
      kept.set(id, { revert, untilMs: now + keptMs });
      return { id, until: new Date(now + keptMs).toISOString() };
    },
    take: (id) => {
      const found = kept.get(id);
      kept.delete(id);
      if (found === undefined || found.untilMs <= Date.now()) {
        throw new Problem('not_found', 'this can not be undone any more');
      }
      return found.revert;
    },
  };
}
