import type { Observer } from '@pgqueue/core';
import type { Database } from '@pgqueue/postgres';
import type { Leader, OpenExplain } from '@pgqueue/postgres/internal';
import {
  answerExplain,
  leadershipLostState,
  questionsMax,
  readQuestions,
  sqlState,
} from '@pgqueue/postgres/internal';
import type { ExplainOptions, TickOutcome } from './explain-job.ts';
import { explainNow } from './explain-job.ts';

/**
 * Answers the explain questions that ticks find. Runs outside the ticks, one question at a time on one
 * connection. Costs an idle leader nothing.
 */
export interface ExplainResponder {
  /** Question number after which the next tick looks for open questions. */
  readonly after: () => number;
  /** Forgets known question numbers: after a failover, numbering may start over. */
  readonly serverLost: () => void;
  /** Queues the questions a tick found, and keeps the state the tick left. */
  readonly seen: (leader: Leader, open: readonly OpenExplain[], left: TickOutcome) => void;
  readonly stop: () => Promise<void>;
}

export interface ExplainResponderOptions extends ExplainOptions {
  readonly database: Database;
  readonly observe: Observer;
}

/** Leader and state at the end of a tick. */
interface Moment {
  readonly leader: Leader;
  readonly left: TickOutcome;
}

/** Numbers below the highest to read again, because transactions commit out of number order. */
const outOfOrder = 100;

export function createExplainResponder(options: ExplainResponderOptions): ExplainResponder {
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
      // the asker waits two seconds at most, then asks the next leader
      if (sqlState(error) === leadershipLostState) inbox.clear();
      else observe({ type: 'database.error', during: 'explain', error });
    }
  };
  /** Answers one question after another until none is left. */
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
      inbox.term(leader.epoch);
      inbox.put(open);
      // kept only while needed, since a snapshot is large
      if (inbox.size() > 0 || answering !== undefined) last = { leader, left };
      if (answering === undefined) go();
    },
    stop: async () => {
      stopped = true;
      await answering;
    },
  };
}

/** Questions waiting for an answer, each once. */
interface Inbox {
  readonly term: (epoch: number) => void;
  readonly put: (open: readonly OpenExplain[]) => void;
  readonly take: () => OpenExplain | undefined;
  readonly size: () => number;
  /** True if the last read was full and every question in it has been taken. */
  readonly mayHaveMore: () => boolean;
  readonly after: () => number;
  readonly clear: () => void;
  /** Starts again from the first number, as if no question had been seen. */
  readonly forget: () => void;
}

function createInbox(): Inbox {
  let waiting: OpenExplain[] = [];
  /** Numbers already queued, within the range that is read again. */
  let known = new Set<number>();
  let highest = 0;
  let full = false;
  let of: number | undefined;
  return {
    term: (epoch) => {
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
