/** Cache of answers, shared by all clients. */
export interface Answers {
  /** Reads again and ignores the cache, for requests made by hand. */
  readonly anew: <Answer extends object>(name: string, read: () => Promise<Answer>) => Promise<Answer>;
  /** Returns the cached answer, or the one being read; reads if there is none. */
  readonly again: <Answer extends object>(name: string, read: () => Promise<Answer>) => Promise<Answer>;
  /** Drops all cached answers after a change. */
  readonly forget: () => void;
}

interface CachedAnswer {
  readonly answer: Promise<object>;
  /** Infinity during the read. */
  until: number;
}

export interface AnswersOptions {
  readonly leastMs: number;
  readonly mostMs: number;
  /**
   * Highest share of the time spent on reading one answer. Exceptions are answers older than `mostMs` and
   * requests made by hand.
   */
  readonly share: number;
}

const keptMax = 100;

/**
 * Creates a cache that reads each answer once for all tabs, the less often the longer the read takes. A name
 * must include everything that the answer depends on, including the role of the user.
 */
export function createAnswers({ leastMs, mostMs, share }: AnswersOptions): Answers {
  const kept = new Map<string, CachedAnswer>();
  const make = (name: string, read: () => Promise<object>): Promise<object> => {
    const begun = performance.now();
    const made: CachedAnswer = { answer: read(), until: Infinity };
    made.answer.then(
      () => {
        const now = performance.now();
        made.until = now + Math.min(mostMs, Math.max(leastMs, (now - begun) / share));
      },
      () => {
        if (kept.get(name) === made) kept.delete(name);
      },
    );
    kept.delete(name);
    for (const [other, { until }] of kept) {
      if (kept.size >= keptMax || until <= begun) kept.delete(other);
    }
    kept.set(name, made);
    return made.answer;
  };
  // each name stands for one type of answer
  const anew = make as Answers['anew'];
  return {
    anew,
    again: <Answer extends object>(name: string, read: () => Promise<Answer>) => {
      const known = kept.get(name);
      if (known === undefined || performance.now() >= known.until) return anew(name, read);
      return known.answer as Promise<Answer>;
    },
    forget: () => kept.clear(),
  };
}
