import { fifo, policy } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { createDeferredLanes } from './deferred-lanes.ts';
import { aGate, aJob, aLane, aSnapshot, patientMs, plannerOf } from '../../testing/planning.ts';

test('a job behind more held lanes than a plan has time for comes up', () => {
  const slow = aGate('slow', ({ key }) => {
    planned.pass(patientMs / 50);
    return key === 'free' ? 'admit' : 'hold_lane';
  });
  const planned = plannerOf(policy({ order: fifo(), gates: [slow] }));
  const held = Array.from({ length: 100 }, (_, n) => aJob(`held${n}`, n));
  const jobs = [...held, aJob('free', 100)];
  const lanes = jobs.map((job) => aLane(job.key, [job]));
  const deferred = createDeferredLanes();
  const find = (id: string): ReturnType<Parameters<typeof deferred.note>[1]['find']> => {
    const job = jobs.find((known) => known.id === id);
    return job === undefined ? undefined : { ...job, rowVersion: '1', crashes: 0 };
  };
  const plans = Array.from({ length: 6 }, () => {
    const snapshot = aSnapshot({ lanes: deferred.without(lanes) });
    const plan = planned.planner.plan(snapshot);
    planned.planner.dropped();
    deferred.note(plan, { find });
    return { lanes: snapshot.lanes.length, went: plan.dispatch.map(({ id }) => id) };
  });
  // 30 or 31 lanes in each plan; the fourth covers the rest, and the fifth starts over
  expect(plans.map(({ went }) => went)).toEqual([[], [], [], ['free100'], [], []]);
  expect(plans[4]?.lanes).toBe(101);
});
