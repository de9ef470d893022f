/** Answers that many ask for at once. */
export interface Answers {
  /** Reads it, whatever was read before: what is asked for by hand is as new as can be. */
  readonly anew: <Answer extends object>(name: string, read: () => Promise<Answer>) => Promise<Answer>;
  /** What was read a moment ago, or is being read for another; read anew where there is nothing of the kind. */
  readonly again: <Answer extends object>(name: string, read: () => Promise<Answer>) => Promise<Answer>;
  /** Something has changed: what was read before is told to nobody any more. */
  readonly forget: () => void;
}

interface Kept {
  readonly answer: Promise<object>;
  /** Infinite while it is being read. */
  until: number;
}

export interface AnswersOptions {
  readonly leastMs: number;
  readonly mostMs: number;
  /** So much of the time is spent on reading one of them at most, but for `mostMs` and for what is asked for by hand. */
  readonly share: number;
}

const keptMax = 100;

/**
 * However many tabs show a page, it is read for one of them, the more rarely the longer it takes. Names must tell apart all that
 * differs, and who may see it.
 */
export function createAnswers({ leastMs, mostMs, share }: AnswersOptions): Answers {
  const kept = new Map<string, Kept>();
  const make = (name: string, read: () => Promise<object>): Promise<object> => {
    const begun = performance.now();
    const made: Kept = { answer: read(), until: Infinity };
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
  // a name stands for one kind of answer
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
