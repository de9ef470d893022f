import type { ClaimedJob } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { Attempt } from './attempt.ts';
import type { Batch } from './attempt.ts';
import { createBatch } from './batch.ts';
import type { Unit } from '../lease/unit.ts';
import type { Ended } from '../lease/ended.ts';

/** A batch under test. `said`: its calls to the database and to the settler, in order. */
interface Bench {
  readonly batch: Batch;
  readonly said: readonly unknown[];
  readonly done: (...which: readonly number[]) => void;
  readonly snoozes: (...which: readonly number[]) => void;
  readonly job: (which: number) => ClaimedJob;
}

/** @param rest position of the row that `take_out` leaves the other jobs in; null: it finds no such batch */
function bench(
  count: number,
  {
    rest = null,
    size = count,
    bundle = null,
  }: { rest?: number | null; size?: number; bundle?: string | null } = {},
): Bench {
  const jobs = Array.from(
    { length: count },
    (_, n) => ({ id: `j${n}`, token: 'x', position: 256, task: 't', leaseMs: 300_000, bundle }) as ClaimedJob,
  ) as unknown as Unit;
  const said: unknown[] = [];
  const idOf = ({ settlement: { id, outcome } }: Ended): string => `${id} ${outcome}`;
  const database = {
    schema: 's',
    query: <Row>(text: string, values: readonly unknown[]) => {
      said.push([/take_out/.exec(text)?.[0], ...values]);
      return Promise.resolve([{ answer: rest }] as Row[]);
    },
  };
  const batch = createBatch(
    {
      database,
      settler: {
        settle: (ended) => void said.push(['settle', ...ended.map(idOf)]),
        settleRow: (row) =>
          void said.push(['settleRow', row.position, row.leases().map(({ id }) => id), row.busyMs, row.data]),
        release: (leases) =>
          void (leases.length > 0 && said.push(['release', ...leases.map(({ id }) => id)])),
        releaseRow: () => void said.push(['releaseRow']),
        before: (_jobs, work) => work(),
      },
    },
    jobs,
    size,
  );
  const job = (which: number): ClaimedJob => jobs[which] as ClaimedJob;
  return {
    batch,
    said,
    job,
    done: (...which) => {
      for (const n of which) {
        const attempt = new Attempt(job(n), { claimedAt: 0, batch }, { timeout: () => {}, over: () => {} });
        batch.done(attempt, { busyMs: n, data: `${n}` });
      }
    },
    snoozes: (...which) => {
      for (const n of which) {
        const settlement = { id: `j${n}`, token: 'x', outcome: 'snooze', delayMs: 1, data: null } as const;
        batch.ended({ settlement, task: 't', onSettled: () => {} });
      }
    },
  };
}

const settled = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));

test('all are done: one settlement, of which nothing is said before, with run times and results in their order', async () => {
  const { said, done } = bench(3);
  done(0, 1);
  await settled();
  expect(said).toEqual([]);
  done(2);
  await settled();
  expect(said).toEqual([['settleRow', 256, ['j0', 'j1', 'j2'], [0, 1, 2], ['0', '1', '2']]]);
});

test('some are not done: those are taken out, the others are settled where they stand then', async () => {
  const { said, done, snoozes } = bench(4, { rest: 261 });
  done(0);
  snoozes(1);
  done(2);
  snoozes(3);
  await settled();
  expect(said).toEqual([
    ['take_out', 256, 'x', ['j1', 'j3']],
    ['settleRow', 261, ['j0', 'j2'], [0, 2], ['0', '2']],
    ['settle', 'j1 snooze'],
    ['settle', 'j3 snooze'],
  ]);
});

test('some are not done, and the batch is gone: what is left of it is taken apart, and each job is settled by itself', async () => {
  const { said, done, snoozes } = bench(3);
  done(0);
  snoozes(1);
  done(2);
  await settled();
  expect(said).toEqual([
    ['take_out', 256, 'x', ['j1']],
    ['take_out', 256, 'x'],
    ['settle', 'j0 done'],
    ['settle', 'j2 done'],
    ['settle', 'j1 snooze'],
  ]);
});

test('none is done: it is taken apart, and each is settled by itself', async () => {
  const { said, snoozes } = bench(2);
  snoozes(0, 1);
  await settled();
  expect(said).toEqual([
    ['take_out', 256, 'x'],
    ['settle', 'j0 snooze'],
    ['settle', 'j1 snooze'],
  ]);
});

test('taken apart once, whoever asks; what ended before is settled then, and what ends behind it at once', async () => {
  const { batch, said, done, job } = bench(4);
  done(0);
  await Promise.all([batch.apart(), batch.apart()]);
  done(1);
  batch.release(job(2));
  await batch.apart();
  expect(said).toEqual([
    ['take_out', 256, 'x'],
    ['settle', 'j0 done'],
    ['settle', 'j1 done'],
    ['release', 'j2'],
  ]);
});

test('a run that takes long: those that have not begun are given back, once each, and do not begin', async () => {
  const { batch, said, done, job } = bench(4);
  batch.begun(job(0));
  done(0);
  batch.begun(job(1));
  batch.outlasted();
  batch.outlasted();
  expect([0, 1, 2, 3].map((n) => batch.fate(job(n)))).toEqual(['runs', 'runs', 'lost', 'lost']);
  await settled();
  done(1);
  expect(said).toEqual([
    ['take_out', 256, 'x'],
    ['settle', 'j0 done'],
    ['release', 'j2', 'j3'],
    ['settle', 'j1 done'],
  ]);
});

test('jobs that have not begun are leases that a heartbeat asks about; what it hears is their fate', () => {
  const { batch, job } = bench(4);
  batch.begun(job(0));
  const waiting = [...batch.waiting()];
  expect(waiting.map(({ lease, live }) => [lease.id, live])).toEqual([
    ['j1', true],
    ['j2', true],
    ['j3', true],
  ]);
  for (const [n, reason] of (['lease_lost', 'cancelled', 'node_silent'] as const).entries())
    waiting[n]?.abort(reason);
  expect([1, 2, 3].map((n) => batch.fate(job(n)))).toEqual(['lost', 'cancelled', 'back']);
  expect([...batch.waiting()]).toEqual([]);
});

test('the slot is through with it, and some have not ended: it is taken apart; not where all have', async () => {
  const [some, all] = [bench(2), bench(2)];
  some.done(0);
  some.batch.through();
  all.done(0, 1);
  all.batch.through();
  await settled();
  expect(some.said).toEqual([
    ['take_out', 256, 'x'],
    ['settle', 'j0 done'],
  ]);
  expect(all.said.map((one) => (one as readonly unknown[])[0])).toEqual(['settleRow']);
});

test('a job of it could not be read: it is taken apart at once', async () => {
  const { said } = bench(2, { size: 3 });
  await settled();
  expect(said).toEqual([['take_out', 256, 'x']]);
});

test('a bundle is given back as it is where all of it is; where some has ended, it is taken apart once the call is through', async () => {
  const [whole, part] = [bench(2, { bundle: '1' }), bench(2, { bundle: '1' })];
  for (const n of [0, 1]) whole.batch.release(whole.job(n));
  part.batch.release(part.job(0));
  part.done(1);
  await settled();
  expect([whole.said, part.said]).toEqual([[['releaseRow']], []]);
  part.batch.through();
  await settled();
  expect(part.said).toEqual([
    ['take_out', 256, 'x'],
    ['settle', 'j1 done'],
    ['release', 'j0'],
  ]);
});
