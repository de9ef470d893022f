import type { PgQueueEvent } from '@pgqueue/core';
import { concurrency, fifo, policy } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
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

test('status and doctor tell of schedulers whose policies differ, if only in a limit, while both run', async () => {
  const operator = createOperator({ connectionString: bench.test.url, pool: bench.database.pool });
  const differing = async (): Promise<readonly string[]> =>
    (await operator.status()).warnings.flatMap(({ kind, message }) =>
      kind === 'policies_differ' ? [message] : [],
    );
  const noted = async (schedulers: number): Promise<void> => {
    await until(`${schedulers} policies to be noted`, async () => {
      const rows = await bench.database.query('select from pgqueue.scheduler_policy', []);
      return rows.length === schedulers;
    });
  };
  const limited = (limit: number) => policy({ name: 'mine', gates: [concurrency({ name: 'all', limit })] });
  await bench.database.query('truncate pgqueue.scheduler_policy', []);
  const first = await bench.scheduler({ policy: limited(2) });
  const leader = await leads(first);
  await bench.scheduler({ policy: limited(2), name: 'same' });
  await noted(2);
  expect(await differing()).toEqual([]);
  const other = await bench.scheduler({ policy: limited(50), name: 'other' });
  await noted(3);
  expect(await differing()).toEqual([
    expect.stringMatching(
      `^schedulers have different policies: ${leader} has "mine", other-\\w+ has "mine", made of other parts: other rules`,
    ) as string,
  ]);
  const { findings } = await operator.doctor();
  expect(findings.find(({ check }) => check === 'policies_that_differ')).toMatchObject({
    severity: 'warning',
    count: 3,
    samples: expect.arrayContaining([`${leader} with mine`]) as unknown,
  });
  await other.stop();
  expect(await differing()).toEqual([]);
});

test('a reign that ends by stop says so', async () => {
  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  await scheduler.stop();
  expect(scheduler.events.at(-1)).toMatchObject({ type: 'leader.lost', stopped: true });
});
