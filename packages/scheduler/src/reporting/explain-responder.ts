import type { Observer } from '@pgqueue/core';
import type { Database, Leader, OpenExplain } from '@pgqueue/postgres';
import { answerExplain, leadershipLostState, questionsMax, readQuestions, sqlState } from '@pgqueue/postgres';
import type { ExplainOptions, Left } from './explain-job.ts';
import { explainNow } from './explain-job.ts';

/** Answers the questions that ticks find, beside the ticks: one after another, on one connection. An idle leader spends nothing on it. */
export interface Answers {
  /** Where the next tick begins to look for open questions. */
  readonly after: () => number;
  /** The server may be another one than before: numbers of questions may begin anew. */
  readonly serverLost: () => void;
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
  const inbox = createInbox();
  let last: Moment | undefined;
  let answering: Promise<void> | undefined;
  let stopped = false;

  const answer = async ({ n, job }: OpenExplain, now: Moment): Promise<void> => {
    try {
      const answered = await explainNow(options, job, () => (last ?? now).left);
      await answerExplain(database, now.leader, { n, answer: answered });
      if (inbox.mayHaveMore()) inbox.put(await readQuestions(database, inbox.after()));
    } catch (error) {
      // whoever asked waits no longer than two seconds; the next leader is asked anew
      if (sqlState(error) === leadershipLostState) inbox.clear();
      else observe({ type: 'database.error', during: 'explain', error });
    }
  };
  /** One after another, until none waits. */
  const go = (): void => {
    const next = stopped || last === undefined ? undefined : inbox.take();
    if (next === undefined || last === undefined) {
      [answering, last] = [undefined, undefined];
      return;
    }
    answering = answer(next, last).then(go);
  };

  return {
    after: inbox.after,
    serverLost: inbox.forget,
    seen: (leader, open, left) => {
      inbox.reign(leader.epoch);
      inbox.put(open);
      // kept only while it is needed: a snapshot is large
      if (inbox.size() > 0 || answering !== undefined) last = { leader, left };
      if (answering === undefined) go();
    },
    stop: async () => {
      stopped = true;
      await answering;
    },
  };
}

/** Questions that wait for their answer, each once. */
interface Inbox {
  readonly reign: (epoch: number) => void;
  readonly put: (open: readonly OpenExplain[]) => void;
  readonly take: () => OpenExplain | undefined;
  readonly size: () => number;
  /** The last read was full, and all of it has been taken. */
  readonly mayHaveMore: () => boolean;
  readonly after: () => number;
  readonly clear: () => void;
  /** Looks from the first number on again, as if none had been there. */
  readonly forget: () => void;
}

function createInbox(): Inbox {
  let waiting: OpenExplain[] = [];
  /** Numbers that were put in, as far back as it is looked. */
  let known = new Set<number>();
  let highest = 0;
  let full = false;
  let of: number | undefined;
  return {
    reign: (epoch) => {
      if (of === epoch) return;
      [of, waiting, known, highest, full] = [epoch, [], new Set(), 0, false];
    },
    put: (open) => {
      full = open.length >= questionsMax;
      for (const question of open) {
        if (known.has(question.n)) continue;
        known.add(question.n);
        highest = Math.max(highest, question.n);
        waiting.push(question);
      }
      if (known.size > 2 * outOfOrder) known = new Set([...known].filter((n) => n >= highest - outOfOrder));
    },
    take: () => waiting.shift(),
    size: () => waiting.length,
    mayHaveMore: () => full && waiting.length === 0,
    after: () => Math.max(0, highest - outOfOrder),
    clear: () => {
      waiting = [];
    },
    forget: () => {
      [known, highest, full] = [new Set(), 0, false];
    },
  };
}
