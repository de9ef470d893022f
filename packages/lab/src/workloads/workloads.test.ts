import { describe, expect, test } from 'vitest';
import { parseWorkload } from './json-workload.ts';
import { toArrival } from './recorded.ts';
import { merge, synthetic } from './synthetic.ts';
import { sayMs, sayName, sayNumber, sayShare } from '../report/format.ts';
import { inOrder } from './workload.ts';

describe('synthetic workloads', () => {
  test('come at their rate, with keys as uneven as they are to be, and the same again', () => {
    const workload = synthetic({
      jobs: 20_000,
      perSecond: 200,
      keys: 4,
      skew: 1,
      duration: 5,
      queue: 'q',
      keyPrefix: 'tenant',
    });
    const all = [...workload];
    expect([...workload]).toEqual(all);
    expect((all.at(-1)?.atMs ?? 0) / 1_000).toBeGreaterThan(97);
    expect((all.at(-1)?.atMs ?? 0) / 1_000).toBeLessThan(103);
    const counts = [1, 2, 3, 4].map((rank) => all.filter(({ key }) => key === `tenant-${rank}`).length);
    // 1/k of the most frequent key, by Zipf: 12/25, 6/25, 4/25, 3/25
    counts.forEach((count, at) => expect(count / 20_000).toBeCloseTo(12 / 25 / (at + 1), 1));
    expect(all.every(({ queue, durationMs }) => queue === 'q' && durationMs === 5)).toBe(true);
  });

  test('come in bursts, with deadlines and attributes', () => {
    const options = { jobs: 100, perSecond: 10, burst: 20, duration: 1, deadlineMs: 50 } as const;
    const all = [...synthetic({ ...options, attributes: ({ below }) => ({ region: below(3) }) })];
    expect(new Set(all.map(({ atMs }) => atMs)).size).toBe(5);
    expect(all.every(({ atMs, deadlineMs }) => deadlineMs === atMs + 50)).toBe(true);
    expect(new Set(all.map(({ attributes }) => attributes?.['region']))).toEqual(new Set([0, 1, 2]));
  });

  test('several become one, in the order of time', () => {
    const late = [
      { atMs: 900, durationMs: 1 },
      { atMs: 5, durationMs: 1 },
    ];
    const times = [...merge(synthetic({ jobs: 50, perSecond: 100, duration: 1 }), late)].map(
      ({ atMs }) => atMs,
    );
    expect(times).toHaveLength(52);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  test('that can not be are refused, with all that is wrong', () => {
    expect(() => synthetic({ jobs: -1, perSecond: 0, keys: 0, duration: -1 })).toThrow(
      /jobs .*perSecond .*keys .*duration/,
    );
  });
});

describe('arrivals', () => {
  test.each([
    [{ atMs: Number.NaN, durationMs: 1 }, 'atMs must be a number'],
    [{ atMs: 0, durationMs: -1 }, 'durationMs must be 0 or more'],
    [{ atMs: 0, durationMs: 1, queue: '' }, 'must not be empty'],
    [{ atMs: 0, durationMs: 1, key: 5 }, 'must be texts'],
    [{ atMs: 0, durationMs: 1, priority: 0.5 }, 'priority must be a whole number'],
    [{ atMs: 0, durationMs: 1, version: 0 }, 'version must be'],
    [{ atMs: 0, durationMs: 1, deadlineMs: '1' }, 'deadlineMs must be numbers'],
    [{ atMs: 0, durationMs: 1, failures: -1 }, 'failures must be'],
    [{ atMs: 0, durationMs: 1, attributes: 'x' }, 'attributes must be'],
    [{ atMs: 0, durationMs: 1, durationMS: 1 }, 'there is no durationMS: did you mean durationMs?'],
    [{ atMs: 0, durationMs: 1, id: 5 }, 'id must be a text'],
    [null, 'it must be an object'],
  ])('that are wrong are named: %j', (arrival, says) => {
    expect(() => [...inOrder([{ atMs: 0, durationMs: 1 }, arrival as never])]).toThrow(
      `arrival 1 of the workload: `,
    );
    expect(() => [...inOrder([{ atMs: 0, durationMs: 1 }, arrival as never])]).toThrow(says);
  });

  test('of a stream must not go back in time', () => {
    const stream = new Set([
      { atMs: 5, durationMs: 1 },
      { atMs: 4, durationMs: 1 },
    ]);
    expect(() => [...inOrder(stream)]).toThrow(
      'arrival 1 of the workload: it comes at 4, before the one in front of it (5)',
    );
  });

  test('of the recorded past take what they took, and fail as often', () => {
    const at = (ms: number): Date => new Date(1_000_000 + ms);
    const job = {
      id: 'i',
      queue: 'q',
      key: 'k',
      task: 't',
      version: 2,
      priority: 3,
      attributes: { a: 1 },
      tries: 2,
    };
    expect(toArrival({ ...job, created: at(0), started: at(50), finished: at(80) })).toEqual({
      id: 'i',
      queue: 'q',
      key: 'k',
      task: 't',
      version: 2,
      priority: 3,
      attributes: { a: 1 },
      atMs: 1_000_000,
      durationMs: 30,
      failures: 2,
    });
  });
});

describe('workloads in JSON', () => {
  test('are arrivals, or an object that has them', () => {
    const arrivals = [{ atMs: 1, durationMs: 2 }];
    expect(parseWorkload(JSON.stringify(arrivals))).toEqual({ arrivals });
    const whole = { arrivals, queues: { mail: { concurrency: 1 } }, fleet: [{ slots: 3 }] };
    expect(parseWorkload(JSON.stringify(whole))).toEqual(whole);
  });

  test.each([
    ['{', 'the workload is no JSON'],
    ['{}', 'the workload: arrivals must be given: an array of arrivals'],
    ['{"arivals": []}', 'there is no arivals: did you mean arrivals?'],
    ['null', 'a workload is an array of arrivals'],
    ['[{"atMs": 0}]', 'arrival 0 of the workload: durationMs'],
    ['{"arrivals": [], "queues": []}', 'queues must be an object with the settings of each queue'],
    ['{"arrivals": [], "fleet": {}}', 'fleet must be a list of nodes, not an object'],
    [
      '{"arrivals": [], "queues": {"mail": {"concurrency": "5"}}}',
      'queues.mail.concurrency must be a whole number from 0, or null, not "5"',
    ],
    [
      '{"arrivals": [], "queues": {"mail": {"limit": 5}}}',
      'there is no queues.mail.limit: only pool, paused, ',
    ],
    [
      '{"arrivals": [], "fleet": [{"slot": 5}]}',
      'there is no fleet[0].slot: did you mean slots?; fleet[0].slots must be given',
    ],
    [
      '[{"atMs": 0, "durationMs": 1, "quue": "mail"}]',
      'arrival 0 of the workload: there is no quue: did you mean queue?',
    ],
  ])('or say what is wrong: %s', (text, says) => {
    expect(() => parseWorkload(text)).toThrow(says);
  });
});

test('numbers for people', () => {
  expect([0, 0.4, 12.34, 999, 1_500, 119_000, 150_000, 7_200_000, 200_000_000].map(sayMs)).toEqual([
    '0 ms',
    '0.4 ms',
    '12 ms',
    '999 ms',
    '1.5 s',
    '119 s',
    '2.5 min',
    '2 h',
    '2.3 d',
  ]);
  expect([null, 0.123, 1.26, 12.6].map(sayNumber)).toEqual(['-', '0.12', '1.3', '13']);
  expect([null, 0, 0.1234, 1].map(sayShare)).toEqual(['-', '0 %', '12.3 %', '100 %']);
  expect(sayName('a\u001b[31mb\u202e', 40)).toBe('a\uFFFD[31mb\uFFFD');
  expect(sayName('x'.repeat(50), 10)).toBe(`${'x'.repeat(9)}…`);
});
