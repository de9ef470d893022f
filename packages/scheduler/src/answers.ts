import type { Observer } from '@pgqueue/core';
import type { Database, Leader, OpenExplain } from '@pgqueue/postgres';
import { answerExplain, leadershipLostState, sqlState } from '@pgqueue/postgres';
import type { ExplainOptions, Left } from './explain-now.ts';
import { explainNow } from './explain-now.ts';

/** Answers the questions that ticks find, beside the ticks: one after another, on one connection. An idle leader spends nothing on it. */
export interface Answers {
  /** Where the next tick begins to look for open questions. */
  readonly after: () => number;
  /** What a tick found, and left. */
  readonly seen: (leader: Leader, open: readonly OpenExplain[], left: Left) => void;
  readonly stop: () => Promise<void>;
}

export interface AnswersOptions extends ExplainOptions {
  readonly database: Database;
  readonly observe: Observer;
}

/** Who led when a tick ended, and what that left. */
interface Moment {
  readonly leader: Leader;
  readonly left: Left;
}

/** Transactions commit out of the order of their numbers; so far behind the last one it is looked again. */
const outOfOrder = 100;

export function createAnswers(options: AnswersOptions): Answers {
  const { database, observe } = options;
  const waiting: OpenExplain[] = [];
  /** Numbers that were taken on, as far back as it is looked. */
  let taken = new Set<number>();
  let highest = 0;
  let epoch: number | undefined;
  let last: Moment | undefined;
  let answering: Promise<void> | undefined;
  let stopped = false;

  const answer = async ({ n, job }: OpenExplain, now: Moment): Promise<void> => {
    try {
      const answered = await explainNow(options, job, () => (last ?? now).left);
      await answerExplain(database, now.leader, { n, answer: answered });
    } catch (error) {
      // whoever asked waits no longer than two seconds; the next leader is asked anew
      if (sqlState(error) === leadershipLostState) waiting.length = 0;
      else observe({ type: 'database.error', during: 'explain', error });
    }
  };
  /** One after another, until none waits. */
  const go = (): void => {
    const next = stopped || last === undefined ? undefined : waiting.shift();
    if (next === undefined || last === undefined) {
      [answering, last] = [undefined, undefined];
      return;
    }
    answering = answer(next, last).then(go);
  };

  return {
    after: () => Math.max(0, highest - outOfOrder),
    seen: (leader, open, left) => {
      if (epoch !== leader.epoch) {
        [epoch, taken, highest] = [leader.epoch, new Set(), 0];
        waiting.length = 0;
      }
      for (const question of open) {
        if (taken.has(question.n)) continue;
        taken.add(question.n);
        highest = Math.max(highest, question.n);
        waiting.push(question);
      }
      if (taken.size > 2 * outOfOrder) taken = new Set([...taken].filter((n) => n >= highest - outOfOrder));
      // kept only while it is needed: a snapshot is large
      if (waiting.length > 0 || answering !== undefined) last = { leader, left };
      if (answering === undefined) go();
    },
    stop: async () => {
      stopped = true;
      await answering;
    },
  };
}
