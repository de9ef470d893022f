import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PgQueueError } from '../errors.ts';
import type { Flow } from './flow.ts';
import { flow } from './flow.ts';
import type { FlowRow } from './to-flow-row.ts';
import { toFlowRow } from './to-flow-row.ts';

type Condition = 'done' | 'ended' | 'failed';

/** Needs of each step by name: random steps in a random order, each of which may need those of a lower rank. */
interface Graph {
  readonly needs: ReadonlyMap<string, Readonly<Record<string, Condition>>>;
}

const condition = fc.constantFrom<Condition>('done', 'ended', 'failed');

/** A graph without a cycle, whose steps are given in any order. */
const acyclic: fc.Arbitrary<Graph> = fc
  .uniqueArray(
    fc
      .string({ minLength: 1, maxLength: 8 })
      .filter((name) => name !== '__proto__' && !name.includes('\u0000')),
    { minLength: 1, maxLength: 30 },
  )
  .chain((names) =>
    fc.record({
      names: fc.constant(names),
      order: fc.shuffledSubarray(names, { minLength: names.length }),
      edges: fc.array(
        fc.record({ from: fc.nat(names.length - 1), to: fc.nat(names.length - 1), condition }),
        { maxLength: 80 },
      ),
    }),
  )
  .map(({ names, order, edges }) => {
    const needs = new Map<string, Record<string, Condition>>(
      order.map((name) => [name, Object.create(null) as Record<string, Condition>]),
    );
    for (const { from, to, condition } of edges) {
      const [needed = '', step = ''] = [names[Math.min(from, to)], names[Math.max(from, to)]];
      const record = needs.get(step);
      if (from !== to && record !== undefined) record[needed] = condition;
    }
    return { needs };
  });

/** A graph in which each step of a circle also needs the next one. */
function withCircle({ needs }: Graph, circle: readonly string[]): Graph {
  const all = [...needs].map(([name, record]): [string, Readonly<Record<string, Condition>>] => {
    const at = circle.indexOf(name);
    const next = circle[(at + 1) % circle.length] ?? '';
    return [name, at === -1 ? record : { ...record, [next]: 'done' }];
  });
  return { needs: new Map(all) };
}

function built({ needs }: Graph): Flow {
  let made: Flow = flow('random');
  for (const [name, record] of needs) made = made.step(name, [], { needs: record });
  return made;
}

function start(made: Flow): Promise<FlowRow> {
  let n = 0;
  return toFlowRow(made, {}, () => String((n += 1)));
}

/** Checks that each named step of a cycle needs the next one. */
function isCycle(names: readonly string[], { needs }: Graph): boolean {
  return (
    names.length > 0 &&
    names.every((name, at) => Object.hasOwn(needs.get(name) ?? {}, names[(at + 1) % names.length] ?? ''))
  );
}

describe('a random graph', () => {
  test('without a cycle comes back from its row, needs first', async () => {
    await fc.assert(
      fc.asyncProperty(acyclic, async (graph) => {
        const row = await start(built(graph));
        const names = row.steps.map(({ name }) => name);
        const back = new Map(
          row.steps.map(({ name, needs }) => [
            name,
            new Map(needs.map(([step, condition]) => [names[step], condition])),
          ]),
        );
        expect(back.size).toBe(graph.needs.size);
        for (const [name, record] of graph.needs)
          expect(back.get(name)).toEqual(new Map(Object.entries(record)));
        for (const [index, { needs }] of row.steps.entries())
          for (const [step] of needs) expect(step).toBeLessThan(index);
      }),
    );
  });

  test('that is in order keeps it', async () => {
    await fc.assert(
      fc.asyncProperty(acyclic, async (graph) => {
        const ordered = await start(built(graph));
        let again: Flow = flow('again');
        for (const { name, needs } of ordered.steps)
          again = again.step(name, [], { needs: needs.map(([step]) => ordered.steps[step]?.name ?? '') });
        expect((await start(again)).steps.map(({ name }) => name)).toEqual(
          ordered.steps.map(({ name }) => name),
        );
      }),
    );
  });

  test('with a cycle is refused, and the cycle is named', async () => {
    const cyclic = acyclic.chain((graph) => {
      const names = [...graph.needs.keys()];
      const circles = fc.shuffledSubarray(names, { minLength: 1, maxLength: Math.min(9, names.length) });
      return circles.map((circle) => withCircle(graph, circle));
    });
    await fc.assert(
      fc.asyncProperty(cyclic, async (graph) => {
        const error = (await start(built(graph)).then(
          () => undefined,
          (thrown: unknown) => thrown,
        )) as PgQueueError | undefined;
        const [told = ''] = (error?.data['problems'] ?? []) as readonly string[];
        const names = /^its steps need each other in a cycle: (.*)$/su.exec(told)?.[1]?.split(' → ') ?? [];
        const inPart = told.includes(' more → ');
        const circle = inPart ? [] : names.slice(0, -1).map((name) => JSON.parse(name) as string);
        expect(inPart || isCycle(circle, graph)).toBe(true);
        expect(names.at(-1)).toBe(names[0]);
      }),
    );
  });
});
