import { PgQueueError } from '@pgqueue/core';
import type { Bell } from '@pgqueue/core/internal';
import type { PulledJob } from '@pgqueue/worker';
import { unitsOf } from '@pgqueue/worker/internal';
import type { Source } from './source.ts';
import { answerMs } from './source.ts';

/** A job that `router.puller` holds. */
export interface RouterPulledJob extends PulledJob {
  /** Name of the installation that has handed it out, and to which its verbs go. */
  readonly installation: string;
}

/** Longest wait for the first answer of any installation. */
const startMs = 5_000;

/** Claims from all sources, one after the other; those that don't answer keep nobody waiting. */
export interface Claims {
  /** Registers the node in all installations. Waits until they are reached, or one is and those that are slow had time. */
  readonly meet: () => Promise<void>;
  /**
   * Claims up to `max` jobs. Asks the sources where jobs may wait, the one first that was not asked for longest; if they had
   * none and `everywhere`, the others, too.
   */
  readonly round: (wanted: {
    readonly max: number;
    readonly everywhere: boolean;
  }) => Promise<readonly RouterPulledJob[]>;
  /** Milliseconds until a round may find more. */
  readonly nextMs: () => number;
}

export function createClaims(sources: readonly Source[], bell: Bell): Claims {
  let turns = 0;
  let meeting = Promise.resolve();

  const meet = async (): Promise<void> => {
    const begunAt = performance.now();
    for (;;) {
      const limitMs = sources.some(({ started }) => started) ? answerMs : startMs;
      const leftMs = begunAt + limitMs - performance.now();
      if (leftMs <= 0 || sources.every(({ met }) => met)) return;
      await bell.wait(leftMs);
    }
  };

  return {
    meet: () => {
      const begun = sources.map((source) => source.begin());
      if (begun.includes(true)) meeting = meet();
      return meeting;
    },
    round: async ({ max, everywhere }) => {
      const jobs: RouterPulledJob[] = [];
      let left = max;
      const take = ({ member }: Source, found: readonly PulledJob[]): void => {
        left -= unitsOf(found).length;
        for (const job of found) jobs.push(Object.assign(job, { installation: member.installation.name }));
      };
      const ask = async (source: Source): Promise<void> => {
        if (!source.asks) return; // it has failed meanwhile
        turns += 1;
        source.turn = turns;
        take(source, await source.ask(left));
      };
      const inTurn = sources.toSorted((a, b) => a.turn - b.turn);
      for (const source of inTurn) if (left > 0) take(source, source.takeLate(left));
      const nowMs = performance.now();
      const due = inTurn.filter(({ dueAt }) => dueAt <= nowMs);
      for (const source of due) if (left > 0) await ask(source);
      if (!everywhere) return jobs;
      const others = inTurn.filter((source) => !due.includes(source) && source.error === undefined);
      for (const source of others) if (jobs.length === 0) await ask(source);
      return jobs;
    },
    nextMs: () => {
      const next = Math.min(...sources.filter(({ asks }) => asks).map(({ dueAt }) => dueAt));
      return Math.max(0, next - performance.now());
    },
  };
}

/**
 * Checks, before it is told that no jobs are there, that an installation has said so.
 * @throws {PgQueueError} `installation`: none answers; or the error that repeating does not mend
 */
export function checkAnswered(sources: readonly Source[]): void {
  const failed = sources.flatMap(({ problem, member, error }) =>
    problem === undefined ? [] : [{ installation: member.installation.name, message: problem, error }],
  );
  const [first] = failed;
  if (first === undefined || failed.length < sources.length) return;
  if (sources.length === 1 && first.error !== undefined) throw first.error;
  throw new PgQueueError(
    'installation',
    `no installation answers: ${failed.map(({ message }) => message).join('; ')}`,
    {
      data: { failed: failed.map(({ installation, message }) => ({ installation, message })) },
      cause: first.error,
    },
  );
}
