import { describe, expect, test } from 'vitest';
import { aJob, anItem, aPool, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import type { Plan } from '../plan.ts';
import type { Policy } from '../policy.ts';
import type { PolicyState } from '../plan.ts';
import type { Candidate, JobFacts, Settlement, Snapshot } from '../snapshot.ts';
import type { EarliestDeadlineOptions } from './earliest-deadline.ts';
import { earliestDeadline } from './earliest-deadline.ts';

const deadline = ({ attributes }: JobFacts): number | null =>
  typeof attributes['dueMs'] === 'number' ? nowMs + attributes['dueMs'] : null;

function due(seq: number, dueMs: number | null, facts: Partial<JobFacts> = {}): Candidate {
  return aJob({ seq, key: `key${seq}`, attributes: dueMs === null ? {} : { dueMs }, ...facts });
}

function make(options: Partial<EarliestDeadlineOptions> = {}): Policy {
  return policy({ order: earliestDeadline({ deadline, ...options }) });
}

function planOf(
  made: Policy,
  jobs: readonly Candidate[],
  seen: Partial<Snapshot> = {},
  state: PolicyState = made.initial,
): Plan {
  return made.plan(aSnapshot({ lanes: lanesOf(jobs), ...seen }), state);
}

const ended = (busyMs: number): Settlement => ({
  job: aJob({ seq: 900 }),
  outcome: 'done',
  busyMs,
  endedMs: nowMs,
});

describe('earliest deadline', () => {
  test('the earliest first, those without one last, by their order of enqueuing', () => {
    const jobs = [due(0, null), due(1, 300), due(2, -50), due(3, null), due(4, 100)];
    expect(planOf(make(), jobs).dispatch.map(({ id }) => id)).toEqual([
      'job2',
      'job4',
      'job1',
      'job0',
      'job3',
    ]);
  });

  test('a job lends its deadline to what stands before it in its key', () => {
    const jobs = [
      due(0, 200),
      due(1, null, { key: 'line' }),
      due(2, 100, { key: 'line' }),
      due(3, null, { key: 'line' }),
    ];
    expect(planOf(make(), jobs).dispatch.map(({ id }) => id)).toEqual(['job1', 'job2', 'job0', 'job3']);
  });

  test('without a deadline it may count as if it had one', () => {
    const jobs = [due(0, 5_000), due(1, null, { createdMs: nowMs - 8_000 })];
    expect(planOf(make({ otherwiseMs: 10_000 }), jobs).dispatch.map(({ id }) => id)).toEqual([
      'job1',
      'job0',
    ]);
  });

  test('a deadline that is no number is reported, and the plan is made without it', () => {
    const plan = planOf(make({ deadline: () => Number.NaN }), [due(0, 1)]);
    expect(plan.dispatch).toHaveLength(1);
    expect(String(plan.faults?.[0]?.error)).toMatch(/order earliest_deadline has no number for job job0/);
  });
});

describe('the forecast', () => {
  const cost = (): number => 100;
  const two = { pools: { default: aPool(2) } };

  test('counts who is late, and who will be, on as many slots as there are', () => {
    const jobs = [due(0, -1), due(1, 100), due(2, 199), due(3, 200), due(4, 250), due(5, 300), due(6, null)];
    // two at a time: they end after 100, 100, 200, 200, 300, 300
    expect(planOf(make({ cost }), jobs, two).forecast).toEqual({
      with_deadline: 6,
      late: 1,
      will_be_late: 2,
    });
  });

  test('lets what is in flight end first', () => {
    const inFlight = [
      anItem({ seq: 50, state: 'running', dispatchedMs: nowMs - 60 }),
      anItem({ seq: 51, state: 'running', dispatchedMs: nowMs - 500 }),
      anItem({ seq: 52 }),
    ];
    // the running ones free their slots after 40 and 0; the ready one takes the second slot until 100
    const jobs = [due(0, 139), due(1, 200)];
    expect(planOf(make({ cost }), jobs, { ...two, inFlight }).forecast).toMatchObject({ will_be_late: 1 });
    expect(planOf(make({ cost }), [due(0, 140), due(1, 200)], { ...two, inFlight }).forecast).toMatchObject({
      will_be_late: 0,
    });
  });

  test('goes by measured runtimes, and says nothing before there are any', () => {
    const made = make();
    const jobs = [due(0, 1_400)];
    const before = planOf(made, jobs, two);
    expect(before.forecast).toEqual({ with_deadline: 1, late: 0, will_be_late: 0 });
    const soon = planOf(made, jobs, { ...two, nowMs: nowMs + 999, settled: [ended(500)] }, before.state);
    expect(soon.forecast).toEqual(before.forecast);
    const later = planOf(made, jobs, { ...two, nowMs: nowMs + 1_000 }, soon.state);
    expect(later.forecast).toEqual({ with_deadline: 1, late: 0, will_be_late: 1 });
  });

  test('with no slot, none is met', () => {
    const pools = { default: aPool(0) };
    expect(planOf(make({ cost }), [due(0, 1e9)], { pools }).forecast).toMatchObject({ will_be_late: 1 });
  });

  test('asks for ended attempts only where it has to measure', () => {
    expect([make().needs?.settlements, make({ cost }).needs?.settlements]).toEqual([true, false]);
  });
});
