import { describe, expect, test } from 'vitest';
import { PgQueueError } from '../../errors.ts';
import { policy } from './compose.ts';
import { circuitBreaker } from '../gates/circuit-breaker/circuit-breaker.ts';
import { concurrency } from '../gates/concurrency.ts';
import { gate } from '../gates/custom.ts';
import { databaseHealth } from '../gates/database-health.ts';
import { ordered } from '../gates/ordered.ts';
import { rate } from '../gates/rate.ts';
import { byScore } from '../orders/by-score.ts';
import { earliestDeadline } from '../orders/earliest-deadline.ts';
import { fairShare } from '../orders/fair-share/fair-share.ts';
import { fifo, ranked } from '../orders/ranked.ts';
import { strictPriority } from '../orders/strict-priority.ts';

/** Function that takes any options: plain JavaScript can pass anything. */
type Make = (options: never) => unknown;
const of = (): null => null;

/** Functions that make a policy or a part of it, each with all of its options. */
const makers: readonly (readonly [name: string, make: Make, options: Readonly<Record<string, unknown>>])[] = [
  ['policy', policy, { name: 'p', gates: [], order: strictPriority(), coalesce: [], recall: true }],
  ['coalesce', (rule: never) => policy({ coalesce: [rule] }), { when: of, max: 2, ageMs: 0 }],
  ['concurrency', concurrency, { name: 'g', by: of, limit: 1, cost: of, lane: true }],
  ['rate', rate, { name: 'g', by: of, perSecond: 1, burst: of, cost: of, lane: true }],
  ['ordered', ordered, { name: 'g', when: of }],
  [
    'circuitBreaker',
    circuitBreaker,
    { name: 'g', by: of, errorRate: 0.5, minimum: 1, windowMs: 1, openMs: 1, when: of, lane: true },
  ],
  [
    'databaseHealth',
    databaseHealth,
    { name: 'g', oldestSnapshotMs: 1, deadRows: 1, replicationLagMs: 1, slowTo: 1 },
  ],
  [
    'gate',
    gate,
    {
      name: 'g',
      admits: of,
      prepare: { everyMs: 10, deadlineMs: 1, fetch: of },
      onError: 'hold',
      lane: true,
    },
  ],
  ['byScore', byScore, { name: 'o', score: of, outranks: of }],
  ['earliestDeadline', earliestDeadline, { deadline: of, cost: of, otherwiseMs: null }],
  ['ranked', ranked, { name: 'o', rank: of, lends: true, outranks: of }],
  ['strictPriority', strictPriority, { agingMs: null }],
  [
    'fairShare',
    fairShare,
    { name: 'o', levels: [{ by: 'key' }], charge: 'time', halfLifeMs: 1, idleCredit: 1 },
  ],
  [
    'a level',
    (level: never) => fairShare({ levels: [level] }),
    { name: 'l', by: of, weight: of, min: of, max: of },
  ],
];

function problemsOf(make: () => unknown): readonly string[] {
  try {
    make();
  } catch (error) {
    if (error instanceof PgQueueError && error.code === 'configuration') {
      return error.data['problems'] as readonly string[];
    }
    throw error;
  }
  return [];
}

describe.each(makers)('%s', (_name, make, options) => {
  test('takes all of its options', () => {
    expect(problemsOf(() => make(options as never))).toEqual([]);
  });

  test('tells every slip of the pen, and the name that was meant', () => {
    for (const name of Object.keys(options)) {
      const shorter = Array.from(name, (_, at) => name.slice(0, at) + name.slice(at + 1));
      for (const slip of new Set([`${name}s`, name.toUpperCase(), ...shorter])) {
        if (slip in options || slip === '') continue;
        const meant = name.length > 3 ? name : String.raw`\w+`;
        const told = new RegExp(`there is no (.*\\.)?${slip}: did you mean ${meant}\\?$`);
        const problems = problemsOf(() => make({ ...options, [slip]: 1 } as never));
        expect(problems).toEqual([expect.stringMatching(told)]);
      }
    }
  });

  test('refuses another type of any option, and names it', () => {
    for (const name of Object.keys(options)) {
      const problems = problemsOf(() => make({ ...options, [name]: Symbol('no') } as never));
      expect(problems).toEqual([expect.stringMatching(new RegExp(`${name}.* must .*, not symbol$`))]);
    }
  });
});

describe('functions given as texts', () => {
  test.each<[string, () => unknown, string]>([
    [
      'by',
      () => concurrency({ name: 'g', by: 'tenant', limit: 1 } as never),
      'by must be a function, not "tenant"',
    ],
    [
      'cost',
      () => rate({ name: 'g', perSecond: 1, burst: 1, cost: 'tokens' } as never),
      'cost must be a function',
    ],
    [
      'level',
      () => fairShare({ levels: [{ by: 'tenant' }] } as never),
      'levels[0].by must be "queue" or "key", or a function',
    ],
    [
      'weight',
      () => fairShare({ levels: [{ by: 'key', weight: 2 }] } as never),
      'levels[0].weight must be a function, not 2',
    ],
    ['charge', () => fairShare({ charge: 'tiem' } as never), 'not "tiem": did you mean "time"?'],
    [
      'cost of a charge',
      () => fairShare({ charge: { cost: 'x' } } as never),
      'charge.cost must be a function',
    ],
    [
      'when',
      () => policy({ coalesce: [{ when: 'x', max: 2, ageMs: 0 }] } as never),
      'coalesce[0].when must be a function',
    ],
  ])('%s', (_what, make, problem) => {
    expect(problemsOf(make)).toEqual([expect.stringContaining(problem)]);
  });
});

describe('a policy', () => {
  test('without an order shares out fairly, as the default policy does', () => {
    expect(policy({})).toMatchObject({ name: 'fair_share', softParts: ['fair_share'] });
    expect(policy()).toMatchObject({ name: 'fair_share' });
    expect(policy({ gates: [concurrency({ name: 'g', limit: 1 })] }).name).toBe('fair_share');
  });

  test.each<[string, object, string]>([
    [
      'a word for onError',
      { gates: [{ name: 'g', open: of, onError: 'holds' }] },
      'gates[0].onError must be "hold" or "ignore", not "holds": did you mean "hold"?',
    ],
    [
      "a slip in a gate of one's own",
      { gates: [{ name: 'g', open: of, onEror: 'hold' }] },
      'there is no gates[0].onEror: did you mean onError?',
    ],
    [
      'a gate that was not made',
      { gates: [ordered] },
      'gates[0] must be a gate, such as concurrency({ name, limit }) makes, not the function ordered',
    ],
    ['one gate', { gates: ordered() }, 'gates must be a list of gates, not an object'],
    [
      'an order that was not made',
      { order: fairShare },
      'order must be an order, such as fairShare() makes, not the function fairShare',
    ],
    [
      'the name of an order',
      { order: 'fifo' },
      'order must be an order, such as fairShare() makes, not "fifo"',
    ],
    [
      'the same name twice',
      { gates: [ordered(), ordered()] },
      'two of its gates or orders are called "ordered"',
    ],
    ['recall without ranks', { recall: true }, 'recall needs an order that says which job outranks another'],
    ['recall with turns', { recall: true, order: byScore({ name: 's', score: () => 1 }) }, 's does not'],
  ])('%s is refused', (_what, options, problem) => {
    expect(problemsOf(() => policy(options))).toEqual([expect.stringContaining(problem)]);
  });

  test("a gate of one's own may have members of its own", () => {
    const mine = { name: 'g', open: () => ({ admits: () => 'admit', why: of }), budget: 5, helper: of };
    expect(problemsOf(() => policy({ gates: [mine as never], order: fifo() }))).toEqual([]);
  });

  test('tells all at once', () => {
    const wrong = { recal: true, order: 'fifo', gates: [1], coalesce: [{ max: 1 }] };
    expect(() => policy(wrong as never)).toThrow(
      /^policy: there is no recal: did you mean recall\?; gates\[0\] must be .*; order must be .*; coalesce\[0\]\.when must be given: a function; coalesce\[0\]\.max must be .*, not 1; coalesce\[0\]\.ageMs must be given/,
    );
  });
});
