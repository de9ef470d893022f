import { expect, test } from 'vitest';
import { policy } from './compose/compose.ts';
import type { Gate, OpenGate } from './gate.ts';
import { circuitBreaker } from './gates/circuit-breaker/circuit-breaker.ts';
import { concurrency } from './gates/concurrency.ts';
import { gate } from './gates/custom.ts';
import { databaseHealth } from './gates/database-health.ts';
import { ordered } from './gates/ordered.ts';
import { rate } from './gates/rate.ts';
import { policyText } from './made-with.ts';
import type { Order } from './order.ts';
import { byScore } from './orders/by-score.ts';
import { earliestDeadline } from './orders/earliest-deadline.ts';
import { fairShare } from './orders/fair-share/fair-share.ts';
import { ranked } from './orders/ranked.ts';
import { strictPriority } from './orders/strict-priority.ts';
import type { JobFacts } from './snapshot.ts';

const tenant = ({ attributes }: JobFacts) => attributes['tenant'];
const key = ({ key: own }: JobFacts): string => own;

const gates: Readonly<Record<string, readonly [Gate, Gate, Gate]>> = {
  concurrency: [
    concurrency({ name: 'g', by: tenant, limit: 2 }),
    concurrency({ name: 'g', by: tenant, limit: 2 }),
    concurrency({ name: 'g', by: tenant, limit: Infinity }),
  ],
  rate: [
    rate({ name: 'g', perSecond: 1, burst: 1 }),
    rate({ name: 'g', perSecond: 1, burst: 1 }),
    rate({ name: 'g', perSecond: 1, burst: 2 }),
  ],
  custom: [
    gate({ name: 'g', admits: () => true }),
    gate({ name: 'g', admits: () => true }),
    gate({ name: 'g', admits: () => 'never' }),
  ],
  circuitBreaker: [
    circuitBreaker({ name: 'g', by: tenant, errorRate: 0.5, minimum: 1, windowMs: 1_000, openMs: 1_000 }),
    circuitBreaker({ name: 'g', by: tenant, errorRate: 0.5, minimum: 1, windowMs: 1_000, openMs: 1_000 }),
    circuitBreaker({ name: 'g', by: tenant, errorRate: 0.5, minimum: 1, windowMs: 1_000, openMs: 2_000 }),
  ],
  databaseHealth: [
    databaseHealth({ replicationLagMs: 1_000 }),
    databaseHealth({ replicationLagMs: 1_000 }),
    databaseHealth({ replicationLagMs: 2_000 }),
  ],
  ordered: [ordered({ when: tenantless }), ordered({ when: tenantless }), ordered()],
};

function tenantless({ attributes }: JobFacts): boolean {
  return attributes['tenant'] === undefined;
}

test.each(Object.entries(gates))(
  'tells apart policies with other options of %s',
  (_name, [one, same, other]) => {
    const text = (of: Gate): string => policyText(policy({ gates: [of] }));
    expect(text(one)).toBe(text(same));
    expect(text(other)).not.toBe(text(one));
  },
);

const orders: Readonly<Record<string, readonly [Order<never>, Order<never>, Order<never>]>> = {
  fairShare: [fairShare(), fairShare(), fairShare({ charge: 'time' })] as never,
  strictPriority: [strictPriority(), strictPriority(), strictPriority({ agingMs: null })] as never,
  byScore: [
    byScore({ name: 'o', score: ({ seq }) => seq }),
    byScore({ name: 'o', score: ({ seq }) => seq }),
    byScore({ name: 'o', score: ({ seq }) => -seq }),
  ] as never,
  ranked: [
    ranked({ name: 'o', rank: ({ seq }) => seq }),
    ranked({ name: 'o', rank: ({ seq }) => seq }),
    ranked({ name: 'o', rank: ({ seq }) => seq, lends: true }),
  ] as never,
  earliestDeadline: [
    earliestDeadline({ deadline: () => 1 }),
    earliestDeadline({ deadline: () => 1 }),
    earliestDeadline({ deadline: () => 1, otherwiseMs: 1_000 }),
  ] as never,
};

test.each(Object.entries(orders))(
  'tells apart policies with other options of %s',
  (_name, [one, same, other]) => {
    const text = (of: Order<never>): string => policyText(policy({ name: 'p', order: of }));
    expect(text(one)).toBe(text(same));
    expect(text(other)).not.toBe(text(one));
  },
);

/** A gate of a user's own, whose members are different in each process. */
class Quota implements Gate {
  readonly name = 'quota';
  readonly since = Math.random();
  readonly #most: number;
  readonly itself = this;
  constructor(most: number) {
    this.#most = most;
  }
  open(): OpenGate {
    return {
      admits: () => (this.#most > 0 ? 'admit' : 'hold'),
      why: () => ({ message: '', untilMs: null }),
    };
  }
}

test("of a user's own gate it shows the source, and not what this has closed over", () => {
  const text = (of: Gate): string => policyText(policy({ gates: [of] }));
  expect(text(new Quota(1))).toBe(text(new Quota(2)));
  const open = (): OpenGate => new Quota(1).open();
  const again = (): OpenGate => new Quota(1).open();
  expect(text({ name: 'quota', open })).toBe(text({ name: 'quota', open: again }));
  expect(text({ name: 'quota', open })).not.toBe(text(new Quota(1)));
});

test('a whole policy shows its name and its source; what has no JSON, its name alone', () => {
  const { plan } = policy({});
  const whole = { name: 'whole', initial: {}, plan };
  expect(policyText(whole)).toBe(policyText({ ...whole, initial: { a: 1 } }));
  expect(policyText({ ...whole, name: 'other' })).not.toBe(policyText(whole));
  const round: Record<string, unknown> = {};
  round['itself'] = round;
  const limit = concurrency({ name: 'g', limit: () => 1, by: Object.assign(key.bind(null), { round }) });
  expect(policyText(policy({ name: 'p', gates: [limit] }))).toContain('"g"');
  expect(policyText({ ...whole, needs: round })).toBe('"whole"');
});
