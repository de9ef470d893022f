import { describe, expect, test } from 'vitest';
import { aJob, anItem, aSnapshot, lanesOf } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Gate } from '../gate.ts';
import { fifo } from '../orders/ranked.ts';
import { neverMs } from '../policy.ts';
import type { Candidate, InFlight, Lane } from '../snapshot.ts';
import { concurrency } from './concurrency.ts';

const region = concurrency({ name: 'region', by: ({ attributes }) => attributes['region'], limit: 2 });
const eu = { attributes: { region: 'eu' } };

/**
 * Returns the ids that a plan within one gate dispatches, in the order of enqueuing, and why each other job
 * is held.
 */
function plan(
  gate: Gate,
  waiting: readonly Candidate[],
  inFlight: readonly InFlight[] = [],
): { readonly goes: readonly string[]; readonly held: Readonly<Record<string, string>> } {
  const made = policy({ gates: [gate], order: fifo() });
  const snapshot = aSnapshot({ lanes: lanesOf(waiting), inFlight });
  const { dispatch, state } = made.plan(snapshot, made.initial);
  const goes = dispatch.map(({ id }) => id);
  const left = waiting.filter(({ id }) => !goes.includes(id));
  const after = {
    ...snapshot,
    inFlight: [
      ...inFlight,
      ...waiting.filter(({ id }) => goes.includes(id)).map((job) => anItem({ ...job })),
    ],
  };
  const why = (job: Candidate): string => {
    const lane = snapshot.lanes.find(({ key, queue }) => key === job.key && queue === job.queue) as Lane;
    const { holds = [] } = made.explain?.(after, state, job, lane) ?? {};
    return holds.map(({ gate, message, untilMs }) => `${gate}: ${message} (${untilMs})`).join();
  };
  return { goes, held: Object.fromEntries(left.map((job) => [job.id, why(job)])) };
}

describe('by an attribute', () => {
  test('counts what is ready and running, over all queues, and what the plan takes', () => {
    const waiting = [1, 2, 3].map((seq) => aJob({ seq, queue: `q${seq}`, ...eu }));
    const running = [anItem({ seq: 9, queue: 'other', state: 'running', ...eu })];
    expect(plan(region, waiting, running)).toEqual({
      goes: ['job1'],
      held: {
        job2: 'region: region eu has 2 of 2 in flight (null)',
        job3: 'region: region eu has 2 of 2 in flight (null)',
      },
    });
  });

  test('values are apart from one another, and a job that has none is not concerned', () => {
    const regions = ['eu', 'us', 'eu', null, 'eu', 'us', null, null];
    const waiting = regions.map((value, seq) =>
      aJob({ seq, key: `k${seq}`, attributes: value === null ? {} : { region: value } }),
    );
    expect(plan(region, waiting).goes).toEqual(['job0', 'job1', 'job2', 'job3', 'job5', 'job6', 'job7']);
  });

  test('numbers and booleans are values, too', () => {
    const plans = concurrency({ name: 'plan', by: ({ attributes }) => attributes['plan'], limit: 1 });
    const values = [1, true, 1, false, 0, true];
    const waiting = values.map((value, seq) => aJob({ seq, key: `k${seq}`, attributes: { plan: value } }));
    expect(plan(plans, waiting).goes).toEqual(['job0', 'job1', 'job3', 'job4']);
  });

  test('without "by", all count together', () => {
    const all = concurrency({ name: 'licences', limit: 1 });
    expect(
      plan(
        all,
        [1, 2].map((seq) => aJob({ seq, key: `k${seq}` })),
      ),
    ).toEqual({
      goes: ['job1'],
      held: { job2: 'licences: licences has 1 of 1 in flight (null)' },
    });
  });

  test('a limit by value, by data of the snapshot; null is none', () => {
    const limits = { eu: 1, us: 0 };
    const gate = concurrency({
      name: 'region',
      by: ({ attributes }) => attributes['region'],
      limit: (value, { batchMax }) => (batchMax > 0 ? (limits[value as 'eu'] ?? null) : 0),
    });
    const waiting = ['eu', 'eu', 'us', 'as', 'as'].map((value, seq) =>
      aJob({ seq, key: `k${seq}`, attributes: { region: value } }),
    );
    expect(plan(gate, waiting).goes).toEqual(['job0', 'job3', 'job4']);
  });
});

describe('a cost', () => {
  const memory = concurrency({
    name: 'memory',
    limit: 10,
    cost: ({ attributes }) => Number(attributes['mb']),
  });
  const ofMb = (mb: number, seq: number): Candidate => aJob({ seq, key: `k${seq}`, attributes: { mb } });

  test('is summed; a smaller job may go where a greater one does not fit', () => {
    expect(plan(memory, [6, 5, 4, 0].map(ofMb))).toEqual({
      goes: ['job0', 'job2', 'job3'],
      held: { job1: 'memory: memory has 10 of 10 in flight; this job takes 5 (null)' },
    });
  });

  test('above the limit never goes, and says so', () => {
    expect(plan(memory, [ofMb(11, 0)]).held['job0']).toBe(
      `memory: memory has 0 of 10 in flight; this job takes 11, so it never goes until that limit is raised (${neverMs})`,
    );
  });

  test('fractions add up as people add them', () => {
    const thirds = concurrency({ name: 'share', limit: 0.3, cost: () => 0.1 });
    expect(
      plan(
        thirds,
        [1, 2, 3, 4].map((seq) => aJob({ seq, key: `k${seq}` })),
      ).goes,
    ).toHaveLength(3);
  });

  test('of several things: each has its limit', () => {
    const gate = concurrency({
      name: 'model',
      by: ({ attributes }) => attributes['model'],
      limit: { tokens: 10, memory: 100 },
      cost: ({ attributes }) => ({ tokens: Number(attributes['tokens']), memory: 40 }),
    });
    const waiting = [4, 4, 1, 1].map((tokens, seq) =>
      aJob({ seq, key: `k${seq}`, attributes: { model: seq === 3 ? 'small' : 'big', tokens } }),
    );
    expect(plan(gate, waiting)).toEqual({
      goes: ['job0', 'job1', 'job3'],
      held: { job2: 'model: model big has 80 of 100 memory in flight; this job takes 40 (null)' },
    });
  });

  test('above one of its limits a job never goes, and that is told first', () => {
    const gate = concurrency({
      name: 'model',
      limit: { memory: 100, cores: 2 },
      cost: () => ({ memory: 60, cores: 3 }),
    });
    expect(plan(gate, [aJob({ seq: 1 })], [anItem({ seq: 9, key: 'x' })]).held['job1']).toBe(
      `model: model has 3 of 2 cores in flight; this job takes 3, so it never goes until that limit is raised (${neverMs})`,
    );
  });

  test('of something that has no limit is a mistake, not a job without limits', () => {
    const gate = concurrency({ name: 'model', limit: { tokens: 10 }, cost: () => ({ token: 1 }) });
    expect(plan(gate, [aJob({ seq: 1 })])).toEqual({
      goes: [],
      held: { job1: 'model: there is no limit for a cost of token (null)' },
    });
  });
});

describe('a bundle', () => {
  const gate = concurrency({ name: 'calls', limit: 2 });
  const coalesce = [{ when: () => true, max: 3, ageMs: 0 }];
  const bundled = (seq: number, bundle: string | null): InFlight => anItem({ seq, key: 'x', bundle });

  test('in flight counts once, whatever order its members come in', () => {
    const inFlight = [bundled(9, 'job7'), bundled(8, 'job7'), bundled(7, 'job7')];
    expect(
      plan(
        gate,
        [1, 2].map((seq) => aJob({ seq, key: `k${seq}` })),
        inFlight,
      ).goes,
    ).toEqual(['job1']);
    expect(plan(gate, [aJob({ seq: 1 })], [...inFlight, bundled(6, null)]).goes).toEqual([]);
  });

  test('that is planned takes one place, and its members none', () => {
    const made = policy({ gates: [gate], order: fifo(), coalesce });
    const waiting = [1, 2, 3, 4, 5, 6, 7].map((seq) => aJob({ seq }));
    const { dispatch } = made.plan(aSnapshot({ lanes: lanesOf(waiting) }), made.initial);
    expect(dispatch.map(({ bundle }) => bundle)).toEqual(['job1', 'job1', 'job1', 'job4', 'job4', 'job4']);
  });

  test('whose members have different values counts for each of them, so a member of a full one stays behind', () => {
    const made = policy({ gates: [region], order: fifo(), coalesce });
    const waiting = ['us', 'us', 'eu'].map((value, seq) => aJob({ seq, attributes: { region: value } }));
    const full = [8, 9].map((seq) => anItem({ seq, key: `x${seq}`, ...eu }));
    const { dispatch } = made.plan(aSnapshot({ lanes: lanesOf(waiting), inFlight: full }), made.initial);
    expect(dispatch.map(({ id }) => id)).toEqual(['job0', 'job1']);
  });
});

describe('where a function of the user fails', () => {
  const picky = (job: { readonly id: string }): string => {
    if (job.id === 'job2' || job.id === 'job9') throw new Error('no region');
    return 'eu';
  };

  test('a waiting job is held, named and reported, the others go', () => {
    const gate = concurrency({ name: 'region', by: picky, limit: 5 });
    const waiting = [1, 2, 3].map((seq) => aJob({ seq, key: `k${seq}` }));
    const made = policy({ gates: [gate], order: fifo() });
    const { dispatch, faults } = made.plan(aSnapshot({ lanes: lanesOf(waiting) }), made.initial);
    expect(dispatch.map(({ id }) => id)).toEqual(['job1', 'job3']);
    expect(faults).toEqual([
      { part: 'region', error: new Error('by failed for job job2: no region'), instead: 'held' },
    ]);
    expect(plan(gate, waiting).held['job2']).toBe('region: by failed for job job2: no region (null)');
  });

  test('a job in flight counts for every value', () => {
    const gate = concurrency({ name: 'region', by: picky, limit: 2 });
    expect(
      plan(
        gate,
        [1, 3].map((seq) => aJob({ seq, key: `k${seq}` })),
        [anItem({ seq: 9 })],
      ),
    ).toEqual({
      goes: ['job1'],
      held: {
        job3: 'region: region eu has 2 of 2 in flight; 1 of it for jobs whose value could not be told (null)',
      },
    });
  });

  test('a job in flight is reported, too', () => {
    const made = policy({ gates: [concurrency({ name: 'region', by: picky, limit: 2 })], order: fifo() });
    const { faults } = made.plan(aSnapshot({ inFlight: [anItem({ seq: 9 })] }), made.initial);
    expect(faults).toEqual([
      { part: 'region', error: new Error('by failed for job job9: no region'), instead: 'held' },
    ]);
  });

  test('a job in flight whose cost is not known fills its value until it ends', () => {
    const cost = (job: { readonly id: string }): number => (job.id === 'job9' ? Number.NaN : 1);
    const gate = concurrency({ name: 'region', by: ({ key }) => key, limit: 100, cost });
    const waiting = [aJob({ seq: 1, key: 'a' }), aJob({ seq: 2, key: 'b' })];
    expect(plan(gate, waiting, [anItem({ seq: 9, key: 'a' })])).toEqual({
      goes: ['job2'],
      held: {
        job1: 'region: region a has 0 of 100 in flight; there is a job in flight whose cost could not be told (null)',
      },
    });
  });

  test.each([
    ['undefined', undefined],
    ['NaN', Number.NaN],
    ['-1', -1],
    ['2', '2'],
  ])('%s is no limit of a value: its jobs are held, and it is reported', (text, limit) => {
    const limits = { eu: 1, us: limit as number };
    const gate = concurrency({ name: 'region', by: ({ key }) => key, limit: (key) => limits[key as 'eu'] });
    const waiting = [aJob({ seq: 1, key: 'us' }), aJob({ seq: 2, key: 'eu' })];
    const message = `limit gave ${text} for us, where 0 or more, several by name, or null are expected`;
    expect(plan(gate, waiting)).toEqual({ goes: ['job2'], held: { job1: `region: ${message} (null)` } });
    const made = policy({ gates: [gate], order: fifo() });
    const { faults } = made.plan(aSnapshot({ lanes: lanesOf(waiting) }), made.initial);
    expect(faults).toEqual([{ part: 'region', error: new Error(message), instead: 'held' }]);
  });

  test.each([
    ['a list', (): unknown => ['eu'], 'by gave neither a text nor a number for job job1'],
    [
      'a promise',
      (): unknown => Promise.resolve('eu'),
      'by failed for job job1: by gave a promise, and must answer at once',
    ],
  ])('%s is no value', (_name, by, message) => {
    const gate = concurrency({ name: 'g', by: by as () => string, limit: 5 });
    expect(plan(gate, [aJob({ seq: 1 })]).held['job1']).toBe(`g: ${message} (null)`);
  });
});

test('each job is asked about once, to know what it is alike to, and the limit once a plan; with "lane" only one job of a key is', () => {
  let asked = 0;
  const counted = (lane: boolean): Gate =>
    concurrency({
      name: 'g',
      limit: 0,
      lane,
      by: ({ key }) => {
        asked += 1;
        return key;
      },
    });
  const waiting = Array.from({ length: 10 }, (_, seq) => aJob({ seq }));
  const askedBy = (gate: Gate): readonly number[] => {
    const made = policy({ gates: [gate], order: fifo() });
    const snapshot = aSnapshot({ lanes: lanesOf(waiting) });
    return [1, 2].map(() => {
      asked = 0;
      expect(made.plan(snapshot, made.initial).held).toEqual({ default: { g: 10 } });
      return asked;
    });
  };
  expect(askedBy(counted(false))).toEqual([10 + 1, 1]);
  expect(askedBy(counted(true))).toEqual([1 + 1, 1]);
});

test.each([
  [
    { name: 'g', limit: -1 },
    'gate g: limit must be 0 or more, or several such by name, or a function, not -1',
  ],
  [
    { name: 'g', limit: Number.NaN },
    'gate g: limit must be 0 or more, or several such by name, or a function, not NaN',
  ],
  [{ name: 'g', limit: { tokens: 1 } }, 'gate g: limit has names, so there must be a cost that has them'],
])('%o is refused', (options, message) => {
  expect(() => concurrency(options)).toThrow(expect.objectContaining({ code: 'configuration', message }));
});

describe('what is no answer', () => {
  const late = (value: number): unknown => Promise.resolve(value);
  const failing = (): unknown => Promise.reject(new Error('late'));

  test.each([
    ['a cost that is a promise', { limit: 2, cost: () => late(1) }],
    ['a cost whose promise rejects', { limit: 2, cost: failing }],
    ['a cost that is a Map', { limit: 2, cost: () => new Map([['', 1]]) }],
    ['a cost that is a bigint', { limit: 2, cost: () => 1n }],
    ['a cost that is undefined', { limit: 2, cost: () => undefined }],
    ['a value whose promise rejects', { limit: 2, by: failing }],
    ['a limit that is a promise', { limit: () => late(2) }],
    ['a limit whose promise rejects', { limit: failing }],
  ])('%s holds the jobs, and is reported', async (_, options) => {
    const gates = [concurrency({ name: 'memory', ...options } as Parameters<typeof concurrency>[0])];
    const made = policy({ gates, order: fifo() });
    const jobs = [1, 2, 3].map((seq) => aJob({ seq, key: `k${seq}` }));
    const plan = made.plan(aSnapshot({ lanes: lanesOf(jobs) }), made.initial);
    expect(plan.dispatch).toEqual([]);
    expect(plan.faults?.map(({ part }) => part)).toEqual(['memory']);
    // a rejection that nothing handles fails this test
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  });
});
