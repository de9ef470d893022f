import { describe, expect, test } from 'vitest';
import { aJob, anItem, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Gate } from '../gate.ts';
import { fifo } from '../orders/ranked.ts';
import type { Explanation } from '../policy.ts';
import { neverMs } from '../policy.ts';
import type { Candidate, Lane, Snapshot } from '../snapshot.ts';
import { laneName } from '../snapshot.ts';
import { ordered } from './ordered.ts';

const gate = ordered({ when: ({ queue }) => queue === 'steps' });
const made = policy({ gates: [gate], order: fifo() });
const steps = [1, 2, 3].map((seq) => aJob({ seq, queue: 'steps', key: 'a' }));
const [first, second, third] = steps as [Candidate, Candidate, Candidate];

function laneWith(facts: Partial<Lane> = {}, jobs: readonly Candidate[] = steps): Lane {
  const [lane] = lanesOf(jobs);
  if (lane === undefined) throw new Error('there are jobs');
  return { ...lane, ...facts };
}

function goes(snapshot: Partial<Snapshot>, by = made): readonly string[] {
  return by.plan(aSnapshot(snapshot), by.initial).dispatch.map(({ id }) => id);
}

function why(job: Candidate, lane: Lane, snapshot: Partial<Snapshot> = {}): Explanation['holds'] | undefined {
  return made.explain?.(aSnapshot({ lanes: [lane], ...snapshot }), made.initial, job, lane).holds;
}

describe('of an ordered key', () => {
  test('one job goes in one plan, the first', () => {
    const other = aJob({ seq: 9, queue: 'steps', key: 'b' });
    expect(goes({ lanes: [laneWith(), laneWith({}, [other])] })).toEqual(['job1', 'job9']);
    expect(why(first, laneWith())).toEqual([]);
    expect(why(third, laneWith())).toEqual([
      {
        gate: 'ordered',
        message: 'key a of queue steps is ordered: its job job1 goes first',
        untilMs: null,
        paced: true,
      },
    ]);
  });

  test('none goes while another one is in flight', () => {
    const inFlight = [anItem({ seq: 0, queue: 'steps', key: 'a', state: 'running' })];
    expect(goes({ lanes: [laneWith()], inFlight })).toEqual([]);
    expect(why(first, laneWith(), { inFlight })).toEqual([
      {
        gate: 'ordered',
        message: 'key a of queue steps is ordered: its job job0 is running',
        untilMs: null,
        paced: true,
      },
    ]);
    const elsewhere = [
      anItem({ seq: 0, queue: 'steps', key: 'b' }),
      anItem({ seq: 9, queue: 'other', key: 'a' }),
    ];
    expect(goes({ lanes: [laneWith()], inFlight: elsewhere })).toEqual(['job1']);
  });

  test('none goes while one waits for its retry; the plan is made anew when that is due', () => {
    const lane = laneWith({ retryDueMs: nowMs + 5_000 });
    const plan = made.plan(aSnapshot({ lanes: [lane] }), made.initial);
    expect(plan).toMatchObject({ dispatch: [], nextMs: nowMs + 5_000, held: { steps: { ordered: 3 } } });
    expect(why(first, lane)).toEqual([
      {
        gate: 'ordered',
        message:
          'key a of queue steps is ordered: one of its jobs waits until 1970-01-01 00:16:45 UTC to run again',
        untilMs: nowMs + 5_000,
      },
    ]);
    // a retry that is due and not seen yet: the next read shows it
    expect(made.plan(aSnapshot({ lanes: [laneWith({ retryDueMs: nowMs })] }), made.initial)).toMatchObject({
      dispatch: [],
      nextMs: null,
    });
  });

  test('none goes while one waits in its handler, and nobody knows until when', () => {
    const lane = laneWith({ retryDueMs: neverMs });
    const plan = made.plan(aSnapshot({ lanes: [lane] }), made.initial);
    expect(plan).toMatchObject({ dispatch: [], nextMs: null, held: { steps: { ordered: 3 } } });
    const message = 'key a of queue steps is ordered: one of its jobs waits in its handler';
    expect(why(first, lane)).toEqual([{ gate: 'ordered', message, untilMs: neverMs }]);
  });

  test('what is not fresh is read anew first', () => {
    const lane = laneWith({ fresh: false });
    const plan = made.plan(aSnapshot({ lanes: [lane] }), made.initial);
    expect(plan).toMatchObject({ dispatch: [], stale: [laneName(lane)] });
    // an item in flight, or a retry that is not due, is known from an old read
    const waits = laneWith({ fresh: false, retryDueMs: nowMs + 1 });
    expect(made.plan(aSnapshot({ lanes: [waits] }), made.initial)).toMatchObject({ dispatch: [], stale: [] });
    const due = laneWith({ fresh: false, retryDueMs: nowMs });
    expect(made.plan(aSnapshot({ lanes: [due] }), made.initial).stale).toHaveLength(1);
    const inFlight = [anItem({ seq: 0, queue: 'steps', key: 'a' })];
    expect(made.plan(aSnapshot({ lanes: [lane], inFlight }), made.initial)).toMatchObject({ stale: [] });
  });

  test('a first job that another rule holds is not passed by', () => {
    const picky: Gate = {
      name: 'picky',
      open: () => ({
        admits: ({ id }) => (id === 'job1' ? 'hold' : 'admit'),
        why: () => ({ message: 'not this one', untilMs: null }),
      }),
    };
    const both = policy({ gates: [picky, gate], order: fifo() });
    expect(goes({ lanes: [laneWith()] }, both)).toEqual([]);
    expect(goes({ lanes: [laneWith({}, [second, third])] }, both)).toEqual(['job2']);
  });

  test('a lane whose first jobs were left out is not judged by those behind', () => {
    const lane = laneWith({ skipped: true }, [second, third]);
    expect(goes({ lanes: [lane] })).toEqual([]);
    expect(why(second, lane)).toMatchObject([
      { message: 'key a of queue steps is ordered: another job of it goes first' },
    ]);
  });

  test('jobs never go as a bundle: its jobs could end differently', () => {
    const coalescing = policy({
      gates: [gate],
      order: fifo(),
      coalesce: [{ when: () => true, max: 3, ageMs: 0 }],
    });
    expect(goes({ lanes: [laneWith()] }, coalescing)).toEqual(['job1']);
  });
});

test('other keys are not concerned', () => {
  const loose = [1, 2, 3].map((seq) => aJob({ seq, key: 'a' }));
  const lane = laneWith({ retryDueMs: nowMs + 1, fresh: false }, loose);
  expect(goes({ lanes: [lane], inFlight: [anItem({ seq: 9, key: 'a' })] })).toEqual(['job1', 'job2', 'job3']);
});

test('by default every key is ordered', () => {
  const all = policy({ gates: [ordered()], order: fifo() });
  const jobs = ['a', 'b', 'a', 'b'].map((key, seq) => aJob({ seq, key }));
  expect(goes({ lanes: lanesOf(jobs) }, all)).toEqual(['job0', 'job1']);
});

test('where "when" fails, its job is held', () => {
  const failing = ordered({
    when: () => {
      throw new Error('no attribute');
    },
  });
  const by = policy({ gates: [failing], order: fifo() });
  const plan = by.plan(aSnapshot({ lanes: [laneWith()] }), by.initial);
  expect(plan.dispatch).toEqual([]);
  expect(plan.faults).toEqual([{ part: 'ordered', error: new Error('no attribute'), instead: 'held' }]);
});
