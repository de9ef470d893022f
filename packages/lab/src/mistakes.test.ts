import type { Policy } from '@pgqueue/core';
import { byScore, concurrency, fifo, gate, policy } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { simulate } from './simulation/simulate.ts';
import { tablesOf } from './report/tables.ts';
import type { Arrival } from './workloads/arrival.ts';

const inOrder = policy({ order: fifo() });

/** Returns equal jobs that arrive at a constant interval. */
function regular(count: number, everyMs: number, job: Omit<Arrival, 'atMs'>): readonly Arrival[] {
  return Array.from({ length: count }, (_, at) => ({ ...job, atMs: at * everyMs }));
}

describe('a policy that fails', () => {
  const workload = regular(10, 1, { durationMs: 5 });

  test('is named, and jobs go FIFO per key', () => {
    const broken: Policy = {
      name: 'broken',
      initial: {},
      plan: () => {
        throw new Error('no such region');
      },
    };
    const { jobs, faults } = simulate({ policy: broken, workload });
    expect(jobs.done).toBe(10);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatchObject({ part: 'broken', message: 'no such region', instead: 'replaced' });
  });

  test('or goes beyond a limit is overruled', () => {
    const greedy: Policy = {
      name: 'greedy',
      initial: {},
      plan: ({ lanes }, state) => ({
        dispatch: lanes.flatMap(({ jobs }) => jobs.map(({ id }) => ({ id, pool: 'default' }))),
        held: {},
        state,
      }),
    };
    const { queues, faults, jobs } = simulate({
      policy: greedy,
      workload,
      queues: { default: { concurrency: 1 } },
    });
    expect(queues[0]?.inFlightMax).toBe(1);
    expect(jobs.done).toBe(10);
    expect(faults[0]?.message).toContain('queue_concurrency');
  });

  test('in its parts says what was used instead, once for each kind of fault', () => {
    const by = ({ id, queue }: { readonly id: string; readonly queue: string }): string => {
      if (queue === 'default') throw new Error(`no tenant (job ${id} at ${id.length})`);
      return queue;
    };
    const result = simulate({
      policy: policy({
        gates: [
          gate({ name: 'odd', admits: ({ id }) => JSON.parse(`{${id}`) as true }),
          concurrency({ name: 'tenant', by, limit: 1 }),
        ],
        order: byScore({ name: 'scores', score: () => Number.NaN }),
      }),
      workload,
      untilMs: 1_000,
    });
    const made = result.plans.made;
    expect(result.jobs.done).toBe(0);
    expect(result.faults).toEqual([
      expect.objectContaining({ part: 'scores', instead: 'turns', count: made }),
      expect.objectContaining({ part: 'odd', instead: 'ignored', count: made }),
      expect.objectContaining({ part: 'tenant', instead: 'held', count: made }),
    ]);
    const table = tablesOf(result).find(({ title }) => title === 'Faults');
    expect(table?.rows.map(([part, , instead]) => [part, instead])).toEqual([
      ['scores', 'keys took turns'],
      ['odd', 'it was left out'],
      ['tenant', 'its jobs were held'],
    ]);
    expect(table?.note).toContain(`of ${made} plans`);
  });

  test('in more ways than can be told has the rest counted', () => {
    let plans = 0;
    const inventive: Policy = {
      name: 'inventive',
      initial: {},
      plan: () => {
        plans += 1;
        throw new Error(`fault ${'x'.repeat(plans)}`);
      },
    };
    const { faults } = simulate({ policy: inventive, workload: regular(300, 10, { durationMs: 5 }) });
    expect(faults).toHaveLength(51);
    expect(faults.at(-1)).toMatchObject({ part: 'others', instead: 'replaced' });
    expect(faults.reduce((sum, { count }) => sum + count, 0)).toBe(plans);
  });
});

test.each<[object, string]>([
  [{ queues: { mail: { concurency: 5 } } }, 'there is no queues.mail.concurency: did you mean concurrency?'],
  [
    { queues: { mail: { concurrency: -5 } } },
    'queues.mail.concurrency must be a whole number from 0, or null, not -5',
  ],
  [
    { queues: { mail: { rate: 5 } } },
    'queues.mail.rate must be an object with perSecond and burst, or null, not 5',
  ],
  [
    { queues: { mail: { keyRate: { perSecond: -1 } } } },
    'queues.mail.keyRate.perSecond must be more than 0, not -1; queues.mail.keyRate.burst must be given',
  ],
  [{ queues: { mail: 5 } }, 'queues.mail must be an object, not 5'],
  [
    { fleet: [{ slots: 1 }, { slots: 0, poool: 'x' }] },
    'there is no fleet[1].poool: did you mean pool?; fleet[1].slots must be a whole number from 1 to 100000, not 0',
  ],
  [{ fleet: { slots: 1 } }, 'fleet must be a list of nodes, not an object'],
  [{ failures: { errorrate: 0.1 } }, 'there is no failures.errorrate: did you mean errorRate?'],
  [{ failures: { errorRate: 0.6, crashRate: 0.6 } }, 'must not be more than 1 together'],
  [{ tick: 5 }, 'there is no tick: did you mean tickMs?'],
  [{ weightOf: { acme: 2 } }, 'weightOf must be a function, not an object'],
  [{ policy: { gates: [] } }, 'policy must be a policy: what policy({ gates, order }) returns'],
  [{ workload: 5 }, 'workload must be arrivals that can be iterated, such as an array, not 5'],
])('a simulation with %j is refused, with the path of the member', (wrong, problem) => {
  expect(() => simulate({ policy: inOrder, workload: [], ...wrong })).toThrow(problem);
});
