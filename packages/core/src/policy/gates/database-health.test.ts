import { describe, expect, test } from 'vitest';
import { aJob, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Gate } from '../gate.ts';
import { fifo } from '../orders/ranked.ts';
import type { DatabaseHealth, Snapshot } from '../snapshot.ts';
import { databaseHealth } from './database-health.ts';

const well: DatabaseHealth = { readMs: nowMs, oldestSnapshotMs: 0, deadRows: 0, replicationLagMs: 0 };
const jobs = Array.from({ length: 20 }, (_, seq) => aJob({ seq, key: `k${seq}` }));

function seen(health: Partial<DatabaseHealth> | null, ms = 0): Snapshot {
  const read = health === null ? null : { ...well, ...health };
  const pool = { groups: [{ tasks: { t: { min: 1, max: 1 } }, slots: 50, depth: 50 }], ready: [] };
  return aSnapshot({ nowMs: nowMs + ms, lanes: lanesOf(jobs), health: read, pools: { default: pool } });
}

function ask(gate: Gate, health: Partial<DatabaseHealth> | null) {
  const made = policy({ gates: [gate], order: fifo() });
  const snapshot = seen(health);
  const { dispatch, state } = made.plan(snapshot, made.initial);
  const [job] = jobs;
  const [lane] = snapshot.lanes;
  if (job === undefined || lane === undefined) throw new Error('there are jobs');
  return { goes: dispatch.length, holds: made.explain?.(snapshot, state, job, lane).holds };
}

describe('stops', () => {
  test.each([
    [
      { oldestSnapshotMs: 600_000 },
      { oldestSnapshotMs: 720_000 },
      'a session holds a snapshot that is 12 min old, 2 min above 10 min',
    ],
    [{ deadRows: 1_000 }, { deadRows: 1_500 }, 'its tables have 1500 dead rows, 500 above 1000'],
    [
      { replicationLagMs: 500 },
      { replicationLagMs: 30_000 },
      'a standby is 30 s behind, 29.5 s above 500 ms',
    ],
  ])('above %o, at %o', (options, health, trouble) => {
    expect(ask(databaseHealth(options), health)).toEqual({
      goes: 0,
      holds: [
        {
          gate: 'database_health',
          message: `the database is not well, nothing goes: ${trouble}`,
          untilMs: null,
        },
      ],
    });
  });

  test('for every limit that is exceeded, and names them all', () => {
    const gate = databaseHealth({ oldestSnapshotMs: 1_000, deadRows: 5, replicationLagMs: 5_000 });
    const { goes, holds } = ask(gate, { oldestSnapshotMs: 2_000, deadRows: 6, replicationLagMs: 5_000 });
    expect(goes).toBe(0);
    expect(holds?.[0]?.message.split('; ')).toHaveLength(2);
  });
});

test.each([
  ['at its limit', { deadRows: 1_000 }],
  ['where it is not known', { deadRows: null }],
  ['before it was read first', null],
  ['where it is bad in what has no limit', { replicationLagMs: 1e9 }],
])('lets all go %s', (_name, health) => {
  expect(ask(databaseHealth({ deadRows: 1_000 }), health)).toEqual({ goes: 20, holds: [] });
});

test('slows down to a rate, and says when the next job goes', () => {
  const gate = databaseHealth({ name: 'care', deadRows: 10, slowTo: 5 });
  expect(ask(gate, { deadRows: 11 })).toMatchObject({
    goes: 5,
    holds: [
      {
        gate: 'care',
        message:
          'the database is not well, slowed to 5 jobs a second: its tables have 11 dead rows, 1 above 10',
        untilMs: nowMs + 200,
      },
    ],
  });
  const made = policy({ gates: [gate], order: fifo() });
  let state = made.initial;
  let goes = 0;
  for (let ms = 0; ms < 10_000; ms += 50) {
    const plan = made.plan(seen({ deadRows: 11 }, ms), state);
    goes += plan.dispatch.length;
    state =
      made.written?.(plan.state, { atMs: nowMs + ms, ids: new Set(plan.dispatch.map(({ id }) => id)) }) ??
      state;
  }
  expect(goes).toBe(54);
});

test('asks for what it needs, and its state is not worth a write of its own', () => {
  expect(databaseHealth({ deadRows: 1 })).toMatchObject({ needs: { health: true }, soft: true });
});

test.each([
  [{}, /one of oldestSnapshotMs, deadRows, replicationLagMs must be given/],
  [{ deadRows: -1, slowTo: -1 }, /deadRows must be 0 or more, not -1; slowTo must be 0 or more, not -1/],
])('%o is refused', (options, message) => {
  expect(() => databaseHealth(options)).toThrow(message);
});
