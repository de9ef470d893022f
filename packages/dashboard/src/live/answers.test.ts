import { describe, expect, test, vi } from 'vitest';
import { createAnswers } from './answers.ts';

const options = { leastMs: 1_000, mostMs: 7_500, share: 0.01 };

/** A read that ends when told to, with the number of reads begun. */
function reading(): {
  readonly read: () => Promise<{ readonly n: number }>;
  readonly end: () => void;
  readonly begun: () => number;
} {
  let begun = 0;
  const open: (() => void)[] = [];
  return {
    read: () => {
      begun += 1;
      const n = begun;
      return new Promise((resolve) => open.push(() => resolve({ n })));
    },
    end: () => {
      for (const resolve of open.splice(0)) resolve();
    },
    begun: () => begun,
  };
}

describe('answers', () => {
  test('one that is being read is given to all who ask again, and only to them', async () => {
    const answers = createAnswers(options);
    const { read, end, begun } = reading();
    const asked = [answers.anew('a', read), answers.again('a', read), answers.again('a', read)];
    const other = [answers.again('b', read), answers.anew('a', read)];
    expect(begun()).toBe(3);
    end();
    expect((await Promise.all(asked)).map(({ n }) => n)).toEqual([1, 1, 1]);
    expect((await Promise.all(other)).map(({ n }) => n)).toEqual([2, 3]);
  });

  test('the longer it took, the longer it is given again, up to a limit', async () => {
    vi.useFakeTimers();
    try {
      const answers = createAnswers(options);
      for (const [tookMs, againMs] of [
        [1, 1_000],
        [40, 4_000],
        [400, 7_500],
      ] as const) {
        const { read, end, begun } = reading();
        const asked = answers.anew(`${tookMs}`, read);
        await vi.advanceTimersByTimeAsync(tookMs);
        end();
        await asked;
        await vi.advanceTimersByTimeAsync(againMs - 1);
        await answers.again(`${tookMs}`, read);
        expect(begun()).toBe(1);
        await vi.advanceTimersByTimeAsync(1);
        void answers.again(`${tookMs}`, read);
        expect(begun()).toBe(2);
      }
    } finally {
      vi.useRealTimers();
    }
  });

  test('what began before a change is told to nobody who asks after it', async () => {
    const answers = createAnswers(options);
    const { read, end, begun } = reading();
    const before = answers.anew('a', read);
    answers.forget();
    const after = answers.again('a', read);
    expect(begun()).toBe(2);
    end();
    expect([await before, await after]).toEqual([{ n: 1 }, { n: 2 }]);
    expect(await answers.again('a', read)).toEqual({ n: 2 });
  });

  test('a failure is told to those who waited, and forgotten', async () => {
    const answers = createAnswers(options);
    const failing = (): Promise<never> => Promise.reject(new Error('no'));
    const asked = [answers.again('a', failing), answers.again('a', failing)];
    for (const one of await Promise.allSettled(asked)) expect(one.status).toBe('rejected');
    expect(await answers.again('a', () => Promise.resolve({ n: 1 }))).toEqual({ n: 1 });
  });

  test('a hundred are kept, the newest', async () => {
    const answers = createAnswers(options);
    let reads = 0;
    const read = (): Promise<object> => Promise.resolve({ n: (reads += 1) });
    for (let n = 0; n < 150; n += 1) await answers.anew(`${n}`, read);
    for (let n = 50; n < 150; n += 1) await answers.again(`${n}`, read);
    expect(reads).toBe(150);
    await answers.again('49', read);
    expect(reads).toBe(151);
  });
});
