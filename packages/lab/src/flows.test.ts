import type { Snapshot } from '@pgqueue/core';
import { concurrency, defaultPolicy, fifo, policy, turns } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { comparisonTables, tablesOf } from './report/tables.ts';
import { compare } from './simulation/compare.ts';
import { simulate } from './simulation/simulate.ts';
import type { FlowArrival, StepArrival } from './workloads/flow-arrival.ts';
import { parseWorkload } from './workloads/json-workload.ts';
import { createRandom } from './workloads/random.ts';
import { synthetic } from './workloads/synthetic.ts';
import { countJobs } from './workloads/workload.ts';

const inOrder = policy({ order: fifo() });
const exact = { tickMs: 0, horizonMs: 0, fleet: [{ slots: 2 }], policy: inOrder };

/** Ten pages, the sum of them, and a mail about that. */
const counting: readonly StepArrival[] = [
  { name: 'pages', count: 10, durationMs: 100 },
  { name: 'sum', after: ['pages'], durationMs: 40, task: 'sum' },
  { name: 'mail', after: ['sum'], durationMs: 10, queue: 'mails' },
];

function flow(steps: readonly StepArrival[], given: Partial<FlowArrival> = {}): FlowArrival {
  return { atMs: 0, flow: 'count-site', steps, ...given };
}

describe('steps', () => {
  test('begin when what they wait for has ended, so a chain lasts as long as its steps', () => {
    const result = simulate({ ...exact, workload: [flow(counting, { atMs: 1_000 })] });
    // ten pages in two slots, then the sum, then the mail
    expect(result.endMs - result.startMs).toBe(500 + 40 + 10);
    expect(result.jobs).toMatchObject({ arrived: 12, done: 12, unfinished: 0 });
    expect(result.flows).toEqual([
      {
        flow: 'count-site',
        flows: { arrived: 1, done: 1, failed: 0, unfinished: 0 },
        makespans: { count: 1, meanMs: 550, p50Ms: 550, p95Ms: 550, p99Ms: 550, maxMs: 550 },
      },
    ]);
    // a job waits from the beginning of its step
    expect(result.queues.find(({ queue }) => queue === 'mails')?.waits.maxMs).toBe(0);
    expect(result.waits.maxMs).toBe(400);
  });

  test('of a diamond wait for all branches; a list of durations gives each job its own', () => {
    const diamond = [
      { name: 'a', durationMs: 10 },
      { name: 'left', after: ['a'], durationMs: [30, 5] },
      { name: 'right', after: ['a'], durationMs: 70 },
      { name: 'end', after: ['left', 'right'], durationMs: 1 },
    ];
    const { makespans } = simulate({ ...exact, fleet: [{ slots: 10 }], workload: [flow(diamond)] });
    expect(makespans.maxMs).toBe(10 + 70 + 1);
  });

  test('wait for a time, with jobs and without', () => {
    const approval = [
      { name: 'ask', durationMs: 10 },
      { name: 'answer', after: ['ask'], delayMs: 3_600_000 },
      { name: 'pay', after: ['answer'], delayMs: 500, durationMs: 20 },
      { name: 'nothing', after: ['answer'], durationMs: [] },
    ];
    const { makespans, jobs } = simulate({ ...exact, workload: [flow(approval)] });
    expect(makespans.maxMs).toBe(10 + 3_600_000 + 500 + 20);
    expect(jobs.done).toBe(2);
  });

  test('that can not have what they wait for are skipped, and those behind them', () => {
    const steps = [
      { name: 'try', durationMs: 10, failures: 1 },
      { name: 'then', after: ['try'], durationMs: 1_000 },
      { name: 'on', after: ['then'], durationMs: 1_000 },
      { name: 'tidy', after: { on: 'ended' }, durationMs: 5 },
      { name: 'mend', after: { try: 'failed' }, durationMs: 7 },
    ] as const;
    const conditions = { ...exact, failures: { maxTries: 1 } };
    const { flows, jobs, endMs } = simulate({ ...conditions, workload: [flow(steps)] });
    expect(jobs).toMatchObject({ arrived: 3, done: 2, dead: 1 });
    expect(endMs).toBe(10 + 7);
    expect(flows[0]).toMatchObject({ flows: { done: 0, failed: 1 }, makespans: { count: 0 } });
    const excused = [steps[0], { name: 'tidy', after: { try: 'ended' }, durationMs: 5 }] as const;
    expect(simulate({ ...conditions, workload: [flow(excused)] }).flows[0]?.flows).toMatchObject({ done: 1 });
  });

  test('without jobs are skipped once no step waits for them any more', () => {
    const steps = [
      { name: 'charge', durationMs: 10 },
      { name: 'bank', delayMs: 86_400_000 },
      { name: 'grace', after: ['bank'], delayMs: 86_400_000 },
      { name: 'refund', after: { charge: 'failed', grace: 'done' }, durationMs: 1_000 },
    ] as const;
    const { flows, makespans, endMs } = simulate({ ...exact, workload: [flow(steps)] });
    expect(flows[0]?.flows).toMatchObject({ done: 1, unfinished: 0 });
    expect([makespans.maxMs, endMs]).toEqual([10, 10]);
  });

  test('that failed are not excused by one that was skipped', () => {
    const steps = [
      { name: 'try', durationMs: 10, failures: 1 },
      { name: 'other', durationMs: 1 },
      { name: 'never', after: { other: 'failed' }, durationMs: 1 },
      { name: 'report', after: { try: 'ended', never: 'done' }, durationMs: 1 },
    ] as const;
    const { flows } = simulate({ ...exact, failures: { maxTries: 1 }, workload: [flow(steps)] });
    expect(flows[0]?.flows).toMatchObject({ done: 0, failed: 1 });
  });

  test('are unfinished when time is over, or when their jobs can not run', () => {
    const { flows, jobs } = simulate({ ...exact, workload: [flow(counting)], untilMs: 450 });
    expect(flows[0]?.flows).toEqual({ arrived: 1, done: 0, failed: 0, unfinished: 1 });
    expect(jobs).toMatchObject({ arrived: 10, done: 8, unfinished: 2 });
    const mails = { mails: { paused: true } };
    const held = simulate({ ...exact, workload: [flow(counting)], queues: mails });
    expect(held.flows[0]?.flows.unfinished).toBe(1);
  });

  test('a chain of ten thousand, and one step of twenty thousand jobs', () => {
    const chain = Array.from({ length: 10_000 }, (_, at) => ({
      name: `s${at}`,
      durationMs: [] as readonly number[],
      ...(at === 0 ? {} : { after: [`s${at - 1}`] }),
    }));
    expect(simulate({ ...exact, workload: [flow(chain)] }).makespans.maxMs).toBe(0);
    const timers = chain.map(({ name, ...step }) => ({
      ...step,
      name,
      durationMs: undefined,
      delayMs: 1_000,
    }));
    const last = { name: 'last', after: { try: 'failed', s9999: 'done' }, durationMs: 1 } as const;
    const idle = [{ name: 'try', durationMs: 1 }, ...timers, last] as readonly StepArrival[];
    expect(simulate({ ...exact, workload: [flow(idle)] }).makespans.maxMs).toBe(1);
    const wide = [
      { name: 'all', count: 20_000, durationMs: 1 },
      { name: 'end', after: ['all'], durationMs: 1 },
    ];
    const { jobs } = simulate({ policy: inOrder, fleet: [{ slots: 1_000 }], workload: [flow(wide)] });
    expect(jobs.done).toBe(20_001);
  });
});

describe('policies', () => {
  test('see the flow of each job, waiting and in flight, so that a limit by flow holds', () => {
    const snapshots: Snapshot[] = [];
    const limit = concurrency({ name: 'of a flow', by: ({ flow: id }) => id ?? null, limit: 3 });
    const limited = policy({ gates: [limit], order: turns() });
    const { jobs, makespans } = simulate({
      ...exact,
      fleet: [{ slots: 20 }],
      policy: { ...limited, plan: (seen, state) => (snapshots.push(seen), limited.plan(seen, state)) },
      workload: [
        flow(counting, { id: 'one' }),
        flow(counting, { atMs: 1, key: 'acme' }),
        flow(counting, { atMs: 2, id: 'one' }),
        { atMs: 3, durationMs: 5, id: 'alone' },
      ],
    });
    expect(jobs.done).toBe(37);
    const inFlight = snapshots.flatMap((seen) => [...Map.groupBy(seen.inFlight, ({ flow: id }) => id)]);
    expect(new Set(inFlight.map(([id]) => id))).toEqual(new Set(['one', 'flow-2', 'one#3', undefined]));
    const most = Math.max(...inFlight.flatMap(([id, items]) => (id === undefined ? [] : [items.length])));
    expect(most).toBe(3);
    expect(makespans.maxMs).toBe(400 + 40 + 10);
    const waiting = snapshots.flatMap(({ lanes }) => lanes.flatMap((lane) => lane.jobs));
    expect(waiting.some(({ flow: id, key }) => id === 'flow-2' && key === 'acme')).toBe(true);
    expect(waiting.filter(({ id }) => id === 'alone').every((job) => !('flow' in job))).toBe(true);
  });

  test('are compared on the same attempts, however they order the steps', () => {
    const starts = [...synthetic({ jobs: 60, perSecond: 20, duration: 1, keys: 5, skew: 1 })];
    const workload = starts.map(({ atMs, key = '' }) => flow(counting, { atMs, key }));
    const conditions = {
      workload,
      fleet: [{ slots: 4 }],
      failures: { errorRate: 0.2, maxTries: 2 },
      seed: 7,
    };
    const { base, other, differences } = compare({
      ...conditions,
      policy: defaultPolicy(),
      against: policy({ order: fifo() }),
    });
    expect(base.flows[0]?.flows.failed).toBeGreaterThan(5);
    expect(other.flows[0]?.flows).toEqual(base.flows[0]?.flows);
    expect(other.jobs).toEqual(base.jobs);
    expect(differences.slice(-2).map(({ measure, base: of }) => [measure, of])).toEqual([
      ['makespan p50', base.makespans.p50Ms],
      ['makespan p99', base.makespans.p99Ms],
    ]);
    const again = simulate({ ...conditions, policy: defaultPolicy() });
    expect(JSON.stringify(again)).toBe(JSON.stringify(other));
    expect(JSON.stringify(simulate({ ...conditions, seed: 8, policy: defaultPolicy() }))).not.toBe(
      JSON.stringify(other),
    );
    const tables = comparisonTables(compare({ ...conditions, policy: inOrder, against: inOrder }));
    expect(tables.map(({ title }) => title).filter((title) => title.startsWith('Flows'))).toHaveLength(2);
  });
});

test('tables tell the flows, and nothing of flows where there are none', () => {
  const workload = [flow(counting), flow(counting, { flow: 'other', atMs: 10_000 })];
  const tables = tablesOf(simulate({ ...exact, workload }));
  expect(tables[0]?.rows).toContainEqual(['flows', '2, 2 done; makespan p50 550 ms, p99 550 ms']);
  expect(tables.find(({ title }) => title === 'Flows')?.rows).toEqual([
    ['count-site', '1', '1', '0', '550 ms', '550 ms', '550 ms', '550 ms'],
    ['other', '1', '1', '0', '550 ms', '550 ms', '550 ms', '550 ms'],
  ]);
  const without = tablesOf(simulate({ ...exact, workload: [{ atMs: 0, durationMs: 1 }] }));
  expect(JSON.stringify(without)).not.toContain('flow');
});

describe('a workload with flows', () => {
  test('counts all jobs, and can be a file', () => {
    const arrivals = [flow(counting), { atMs: 5, durationMs: 1 }];
    expect(countJobs(arrivals)).toBe(13);
    expect(parseWorkload(JSON.stringify({ arrivals }))).toEqual({ arrivals });
  });

  test('is refused with all that is wrong in it, before anything runs', () => {
    const plans: Snapshot[] = [];
    const watched = { ...inOrder, plan: (seen: Snapshot) => (plans.push(seen), inOrder.plan(seen, {})) };
    const wrong = [
      { atMs: 0, durationMs: 1 },
      flow([
        { name: 'a', durationMs: 1, after: ['c'] },
        { name: 'b', durationMs: 1, after: ['a'] },
        { name: 'c', durationMs: 1, after: ['b', 'pagse'] },
        { name: 'pages', durationMs: 1 },
        { name: 'pages', durationMs: 1 },
      ]),
      { atMs: 0, durationMs: -1 },
    ];
    expect(() => simulate({ ...exact, policy: watched, workload: wrong })).toThrow(
      /^arrival 1 of the workload: step "pages" is there twice; arrival 1: step "c": needs "pagse", which is no step: did you mean "pages"\?; arrival 1: its steps need each other in a cycle: "a" → "c" → "b" → "a"; arrival 2: durationMs must be 0 or more$/,
    );
    expect(plans).toEqual([]);
  });

  test.each<[object, string]>([
    [{ steps: [] }, 'it has no steps'],
    [{ steps: undefined }, 'steps must be given'],
    [{ steps: [{ name: 'a' }] }, 'step "a": give durationMs, or delayMs for a step without jobs'],
    [{ steps: [{ name: 'a', delayMs: 1, count: 2 }] }, 'step "a": count is for jobs: give durationMs, too'],
    [
      { steps: [{ name: 'a', durationMs: [1, 2], count: 2 }] },
      'durationMs lists each job, so leave count out',
    ],
    [{ steps: [{ name: 'a', durationMs: null }] }, 'steps[0].durationMs must be'],
    [{ steps: [{ name: 'a', durationMS: 5 }] }, 'there is no steps[0].durationMS: did you mean durationMs?'],
    [{ steps: [{ name: 'a', durationMs: 1, after: { a: 'never' } }] }, 'steps[0].after.a must be'],
    [{ steps: [{ name: 'a', durationMs: 1, after: [5] }] }, 'steps[0].after'],
    [{ steps: [{ name: 'a', durationMs: 1, after: ['a'] }] }, 'in a cycle: "a" → "a"'],
    [{ steps: [{ name: 'a', durationMs: 1, count: 1e8 }] }, 'steps[0].count must be'],
    [{ steps: [null] }, 'steps[0] must be'],
    [{ atMs: '0' }, 'atMs must be a number'],
    [{ flow: '' }, 'flow must be'],
    [{ durationMs: 5 }, 'there is no durationMs'],
  ])('that has %j says so', (given, says) => {
    const text = JSON.stringify([{ atMs: 0, flow: 'f', steps: [{ name: 'a', durationMs: 1 }], ...given }]);
    expect(() => parseWorkload(text)).toThrow('arrival 0 of the workload: ');
    expect(() => parseWorkload(text)).toThrow(says);
  });

  test('of many problems tells the first twenty', () => {
    const wrong = Array.from({ length: 30 }, () => ({ atMs: 0, durationMs: -1 }));
    expect(() => parseWorkload(JSON.stringify(wrong))).toThrow(/arrival 19: [^;]*; and 10 more$/);
  });

  // the least that any schedule can take: the longest chain, and all work spread over all slots
  test('never ends before its longest chain, nor before all its work is done (random graphs)', () => {
    const random = createRandom(11);
    for (let run = 0; run < 60; run += 1) {
      const steps: StepArrival[] = Array.from({ length: 1 + random.below(12) }, (_, at) => ({
        name: `s${at}`,
        after: Array.from({ length: at }, (_other, of) => `s${of}`).filter(() => random.uniform() < 0.3),
        durationMs: Array.from({ length: random.below(5) }, () => random.below(50)),
      }));
      const slots = 1 + random.below(4);
      const { makespans, jobs } = simulate({ ...exact, fleet: [{ slots }], workload: [flow(steps)] });
      const ends = new Map<string, number>();
      let work = 0;
      for (const { name, after, durationMs } of steps) {
        const durations = durationMs as readonly number[];
        const begins = Math.max(0, ...(after as readonly string[]).map((of) => ends.get(of) ?? 0));
        ends.set(name, begins + Math.max(0, ...durations));
        work += durations.reduce((sum, ms) => sum + ms, 0);
      }
      expect(jobs.done).toBe(countJobs([flow(steps)]));
      expect(makespans.maxMs).toBeGreaterThanOrEqual(Math.max(...ends.values()));
      expect(makespans.maxMs).toBeGreaterThanOrEqual(work / slots);
      // a list schedule is at most the sum of both (Graham, 1966)
      expect(makespans.maxMs).toBeLessThanOrEqual(Math.max(...ends.values()) + work / slots);
    }
  });
});
