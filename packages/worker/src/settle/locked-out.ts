import type { Target } from '@pgqueue/postgres/internal';
import { unlockedJobs } from '@pgqueue/postgres/internal';
import type { Ended } from '../lease/ended.ts';

/**
 * Ended attempts whose jobs an application has locked: by an enqueue that replaces the unique key, say, in a
 * transaction that is still open. They wait here until it ends, while others are settled; the node keeps
 * their leases.
 */
export interface LockedOut {
  readonly add: (ended: readonly Ended[]) => void;
  readonly size: () => number;
  readonly all: () => Iterable<Ended>;
}

export interface LockedOutParts {
  readonly database: Target;
  /** Aborts when all of them are given up. */
  readonly abandoned: AbortSignal;
  /** Settles attempts whose jobs are not locked any more. */
  readonly settle: (ended: readonly Ended[]) => void;
  readonly onGivenUp: (ended: readonly Ended[]) => void;
}

/** Interval at which the database is asked, for all of them at once. */
const everyMs = 500;

export function createLockedOut({ database, abandoned, settle, onGivenUp }: LockedOutParts): LockedOut {
  const waiting = new Set<Ended>();
  let timer: NodeJS.Timeout | undefined;

  const take = (some: readonly Ended[]): readonly Ended[] => some.filter((ended) => waiting.delete(ended));

  const look = async (): Promise<void> => {
    const asked = [...waiting];
    try {
      const free = await unlockedJobs(
        database,
        asked.map(({ settlement }) => settlement),
      );
      const freed = take(asked.filter(({ settlement }) => free.has(settlement.id)));
      if (freed.length > 0) settle(freed);
    } catch {
      // Settlements of other jobs meet the same error, and report it.
    }
    timer = undefined;
    lookLater();
  };
  const lookLater = (): void => {
    if (waiting.size === 0) return;
    timer ??= setTimeout(() => void look(), everyMs).unref();
  };

  const giveUp = (): void => {
    clearTimeout(timer);
    const left = take([...waiting]);
    for (const { onSettled } of left) onSettled('failed');
    if (left.length > 0) onGivenUp(left);
  };
  abandoned.addEventListener('abort', giveUp);

  return {
    add: (ended) => {
      for (const one of ended) waiting.add(one);
      if (abandoned.aborted) giveUp();
      else lookLater();
    },
    size: () => waiting.size,
    all: () => waiting,
  };
}
