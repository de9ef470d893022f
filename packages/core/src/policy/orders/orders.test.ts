import { describe, expect, test } from 'vitest';
import type { OrderProperty } from '../../testing/orders.ts';
import { checkOrder, orderPropertyNames } from '../../testing/orders.ts';
import type { Order } from '../order.ts';
import { byScore } from './by-score.ts';
import { earliestDeadline } from './earliest-deadline.ts';
import { fairShare } from './fair-share/fair-share.ts';
import { fifo, ranked, turns } from './ranked.ts';
import { strictPriority } from './strict-priority.ts';

const deadlineOf = ({ attributes, createdMs }: { attributes: object; createdMs: number }): number | null =>
  'region' in attributes ? createdMs + 60_000 : null;

const orders: Readonly<Record<string, Order>> = {
  fifo: fifo(),
  turns: turns(),
  'strict priority, ageing': strictPriority({ agingMs: 10_000 }),
  'fair share of jobs': fairShare(),
  'fair share of costs, three levels, with guarantees and maxima': fairShare({
    levels: [
      {
        name: 'region',
        by: ({ attributes }) => attributes['region'],
        weight: (region) => (region === 'eu' ? 3 : 0.3),
      },
      { by: 'queue', max: (queue) => (queue === 'mail' ? 4 : null) },
      { by: 'key', min: (key) => (key === 'a' ? 2 : 0) },
    ],
    charge: { cost: ({ attributes }) => Number(attributes['cost'] ?? 1) / 3 },
    halfLifeMs: 5_000,
    idleCredit: 0.3,
  }),
  'fair share of time': fairShare({ charge: 'time', halfLifeMs: 60_000 }),
  'earliest deadline': earliestDeadline({ deadline: deadlineOf, otherwiseMs: 120_000 }),
  'score by age and tries': byScore({
    name: 'score',
    score: (job, snapshot) => snapshot.nowMs - job.createdMs - job.tries,
  }),
};

describe.each(Object.entries(orders))('%s', (_name, order) => {
  test.each(orderPropertyNames)('%s', (property) => {
    expect(() => checkOrder(property, order)).not.toThrow();
  });
});

/** Returns an order whose `open` is that of `order`, changed. */
function variant(order: Order, change: (open: Order['open']) => Order['open']): Order {
  return { ...order, open: change((...given) => order.open(...given)) };
}

describe('the properties can fail', () => {
  const fair = fairShare() as Order;
  const seeded: Readonly<Record<string, { readonly order: Order; readonly caughtBy: OrderProperty }>> = {
    'throws, and is replaced': {
      order: variant(fair, () => () => {
        throw new Error('broken');
      }),
      caughtBy: 'a plan can be written',
    },
    'gives up at the first job that is held': {
      order: variant(fair, (open) => (...given) => {
        const opened = open(...given);
        let stopped = false;
        return {
          ...opened,
          next: () => (stopped ? undefined : opened.next()),
          passed: () => {
            stopped = true;
          },
        };
      }),
      caughtBy: 'work conserving: what is held finds no place, is held by a gate, or the batch is full',
    },
    'forgets a lane in eight': {
      order: variant(
        fair,
        (open) => (snapshot, state, heads) =>
          open(snapshot, state, { ...heads, lanes: () => heads.lanes().filter(({ key }) => key !== 'ä') }),
      ),
      caughtBy: 'every visible job is dispatched or counted',
    },
    'goes by how the lanes come': {
      order: variant(fifo(), (open) => (snapshot, state, heads) => {
        const place = new Map(snapshot.lanes.map((lane, index) => [lane, index]));
        const first = ranked({
          name: 'fifo',
          rank: ({ queue, key }) =>
            [...place].find(([lane]) => lane.queue === queue && lane.key === key)?.[1] ?? 0,
        });
        return first.open(snapshot, state, heads) ?? open(snapshot, state, heads);
      }),
      caughtBy: 'the order of the input does not matter',
    },
    'loses its state': {
      order: { ...fair, restore: () => fair.initial ?? null },
      caughtBy: 'a restored state gives the same next plan',
    },
    'never ages': {
      order: strictPriority({ agingMs: null }),
      caughtBy: 'a key does not starve, whatever comes after its jobs',
    },
    'newest first': {
      order: ranked({ name: 'newest', rank: ({ seq }) => -seq }),
      caughtBy: 'a key does not starve, whatever comes after its jobs',
    },
  };

  test.each(Object.entries(seeded))('%s', (_name, { order, caughtBy }) => {
    expect(() => checkOrder(caughtBy, order, true)).toThrow(/Property failed/);
  });
});
