import { expect, test, vi } from 'vitest';
import type { Turnstile } from './turnstile.ts';
import { createTurnstile } from './turnstile.ts';

/** Work that ends when told to, and records when it begins. */
function works(turnstile: Turnstile): {
  readonly begun: string[];
  readonly ask: (name: string) => Promise<string>;
  readonly end: (name: string) => void;
} {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  return {
    begun,
    ask: (name) => {
      ends.set(name, Promise.withResolvers());
      return turnstile(() => {
        begun.push(name);
        return ends.get(name)?.promise ?? Promise.reject(new Error(name));
      });
    },
    end: (name) => ends.get(name)?.resolve(name),
  };
}

test('so many go at a time, the others in their order; who finds too many in line is told at once', async () => {
  const { ask, begun, end } = works(createTurnstile({ atOnce: 2, waitingMax: 2, waitMs: 60_000 }));
  const asked = ['a', 'b', 'c', 'd'].map(ask);
  await expect(ask('e')).rejects.toMatchObject({ code: 'busy' });
  expect(begun).toEqual(['a', 'b']);
  end('b');
  await asked[1];
  await vi.waitFor(() => expect(begun).toEqual(['a', 'b', 'c']));
  for (const name of ['a', 'c', 'd']) end(name);
  expect(await Promise.all(asked)).toEqual(['a', 'b', 'c', 'd']);
});

test('who has waited for too long goes, makes room in the line, and is not let in later', async () => {
  vi.useFakeTimers();
  try {
    const { ask, begun, end } = works(createTurnstile({ atOnce: 1, waitingMax: 1, waitMs: 1_000 }));
    const inside = ask('inside');
    const late = ask('late').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await late).toMatchObject({ code: 'busy' });
    const next = ask('next');
    await expect(ask('too many')).rejects.toMatchObject({ code: 'busy' });
    end('inside');
    await inside;
    end('next');
    expect(await next).toBe('next');
    expect(begun).toEqual(['inside', 'next']);
    // the wait of a call that was let in ends with it: otherwise the line would count one too few
    await vi.advanceTimersByTimeAsync(1_000);
    const others = ['again', 'waits'].map(ask);
    await expect(ask('too many again')).rejects.toMatchObject({ code: 'busy' });
    for (const name of ['again', 'waits']) end(name);
    expect(await Promise.all(others)).toEqual(['again', 'waits']);
  } finally {
    vi.useRealTimers();
  }
});

test('work that fails gives its place on', async () => {
  const turnstile = createTurnstile({ atOnce: 1, waitingMax: 1, waitMs: 1_000 });
  const failed = turnstile(() => Promise.reject(new Error('no')));
  const next = turnstile(() => Promise.resolve('next'));
  await expect(failed).rejects.toThrow('no');
  expect(await next).toBe('next');
  expect(await turnstile(() => Promise.resolve('one more'))).toBe('one more');
});
