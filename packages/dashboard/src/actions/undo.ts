import { randomUUID } from 'node:crypto';
import type { Undo, UndoResult } from '../contract.ts';
import { Problem } from '../problem.ts';

/** How to take an action back. */
export type Revert = () => Promise<UndoResult>;

/** What can still be taken back: in this process, for a while. */
export interface UndoStore {
  readonly keep: (revert: Revert) => Undo;
  /** Once. @throws {Problem} `not_found` */
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
