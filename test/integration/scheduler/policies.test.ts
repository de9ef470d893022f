import type { PgQueueEvent } from '@pgqueue/core';
import { fifo, policy } from '@pgqueue/core';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { TestScheduler } from './support.ts';
import { openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

const mine = policy({ name: 'mine', order: fifo() });
const yours = policy({ name: 'yours', order: fifo() });

const told = ({ events }: TestScheduler): readonly PgQueueEvent[] =>
  events.filter(({ type }) => type === 'policy.differs');

async function leads(scheduler: TestScheduler): Promise<string> {
  await until('it leads', () => scheduler.leads);
  const found = await until('it reports', async () => {
    const [row] = await bench.database.query<{ leader: string }>(
      'select leader from pgqueue.scheduler_report join pgqueue.scheduler_lease using (leader, epoch)',
      [],
    );
    return row;
  });
  return found.leader;
}

test('a standby tells once of a leader with a policy of another name; one with the same name tells nothing', async () => {
  await bench.database.query('truncate pgqueue.scheduler_report', []);
  const first = await bench.scheduler({ policy: mine, name: 'first' });
  const leader = await leads(first);
  const [other, same] = [
    await bench.scheduler({ policy: yours, name: 'other' }),
    await bench.scheduler({ policy: mine, name: 'same' }),
  ];
  await until('the standby tells', () => told(other).length > 0);
  expect(told(other)).toEqual([{ type: 'policy.differs', policy: 'yours', leader, other: 'mine' }]);
  expect([told(first), told(same)]).toEqual([[], []]);
});

test('whoever takes over after a leader that is gone tells of it, too', async () => {
  await bench.database.query('truncate pgqueue.scheduler_report', []);
  const first = await bench.scheduler({ policy: mine });
  const leader = await leads(first);
  await first.stop();
  const next = await bench.scheduler({ policy: yours });
  await leads(next);
  expect(told(next)).toEqual([{ type: 'policy.differs', policy: 'yours', leader, other: 'mine' }]);
});

test('a reign that ends by stop says so', async () => {
  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  await scheduler.stop();
  expect(scheduler.events.at(-1)).toMatchObject({ type: 'leader.lost', stopped: true });
});
