import type { Need } from '@pgqueue/core';
import type { EndInStep, PageOfEnds, PagePlace } from '@pgqueue/postgres/internal';
import { describe, expect, test } from 'vitest';
import { createNeeds } from './needs.ts';

const idOf = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;

/** A step with `count` results of some characters, of which every tenth job is dead. */
function stepOf(count: number, characters: number) {
  const ends = Array.from({ length: count }, (_, n): EndInStep =>
    n % 10 === 9
      ? { job: idOf(n), outcome: 'dead', result: null, task: null }
      : { job: idOf(n), outcome: 'done', result: n, task: 'a' },
  );
  const places: PagePlace[] = [];
  const needPage = (_need: string, place: PagePlace): Promise<PageOfEnds> => {
    places.push(place);
    const page = ends.filter(({ job }) => place.after === null || job > place.after).slice(0, place.max);
    return Promise.resolve({ ends: page, length: page.length * characters });
  };
  const steps = [{ name: 'site.pages', step: 3, outcome: 'failed', done: 9, failed: 1, other: 0 } as const];
  const needs = createNeeds({ needs: { names: ['pages', 'gone'], steps }, needPage }) as {
    readonly pages: Need;
    readonly gone: Need;
  };
  return { needs, places };
}

async function listed<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const list: Value[] = [];
  for await (const value of values) list.push(value);
  return list;
}

describe('a need', () => {
  test('has the results of done jobs in the order of ids, and the others apart', async () => {
    const { needs } = stepOf(20, 10);
    expect((await listed(needs.pages)).map(({ result }) => result)).toEqual(
      Array.from({ length: 20 }, (_, n) => n).filter((n) => n % 10 !== 9),
    );
    expect(await listed(needs.pages.failures)).toEqual([
      { job: idOf(9), outcome: 'dead' },
      { job: idOf(19), outcome: 'dead' },
    ]);
    expect(await needs.pages.one()).toBe(0);
    expect(needs.pages).toMatchObject({ outcome: 'failed', done: 9, failed: 1, other: 0 });
  });

  test.each([
    ['short', 10, [100, 1_000, 1_000, 1_000]],
    ['long', 1_048_576, [100, 4, 4]],
  ])('of %s results reads pages of a bounded length', async (_name, characters, sizes) => {
    const { needs, places } = stepOf(2_400, characters);
    await listed(needs.pages);
    expect(places.slice(0, sizes.length).map(({ max }) => max)).toEqual(sizes);
    expect(new Set(places.map(({ after }) => after)).size).toBe(places.length);
  });

  test('reads no further page when its reader stops', async () => {
    const { needs, places } = stepOf(2_400, 10);
    for await (const { result } of needs.pages) if (result === 50) break;
    expect(places).toHaveLength(1);
  });

  test('that is no step throws when it is read', () => {
    const { needs } = stepOf(1, 1);
    expect(Object.keys(needs)).toEqual(['pages', 'gone']);
    expect(() => needs.gone).toThrow(expect.objectContaining({ code: 'not_found' }) as Error);
  });
});
