import fc from 'fast-check';
import { expect, test } from 'vitest';
import { aJob, aPool, aSnapshot } from '../../../testing/snapshots.ts';
import { policy } from '../../compose/compose.ts';
import type { Policy } from '../../policy.ts';
import type { PolicyState } from '../../plan.ts';
import type { Lane } from '../../snapshot.ts';
import { fairShare } from './fair-share.ts';

/**
 * Changes of the lanes between two plans: a lane is added, removed, replaced by another of the same queue and
 * key, emptied, or moved.
 */
const changes = fc.array(
  fc.record({
    kind: fc.constantFrom('more', 'less', 'other', 'empty', 'move'),
    queue: fc.integer({ min: 0, max: 2 }),
    key: fc.integer({ min: 0, max: 7 }),
    at: fc.nat(),
  }),
  { maxLength: 6 },
);
const stories = fc.array(fc.record({ changes, batchMax: fc.integer({ min: 1, max: 6 }) }), {
  minLength: 2,
  maxLength: 12,
});

const makes: readonly (readonly [string, () => Policy])[] = [
  ['queues and keys', () => policy({ order: fairShare() })],
  ['keys of all queues', () => policy({ order: fairShare({ levels: [{ by: 'key' }] }) })],
  ['credit for idle time', () => policy({ order: fairShare({ idleCredit: 3 }) })],
  [
    'guarantees',
    () => policy({ order: fairShare({ levels: [{ by: 'queue', min: () => 1 }, { by: 'key' }] }) }),
  ],
];

let seq = 0;
function aLane(queue: number, key: number, jobs: number): Lane {
  const names = { queue: `q${queue}`, key: `k${key}` };
  const own = Array.from({ length: jobs }, () => aJob({ ...names, seq: (seq += 1) }));
  return { ...names, jobs: own, more: false, retryDueMs: null, fresh: true };
}

function change(
  lanes: Lane[],
  { kind, queue, key, at }: { kind: string; queue: number; key: number; at: number },
): void {
  const there = lanes.findIndex((lane) => lane.queue === `q${queue}` && lane.key === `k${key}`);
  const put = (lane: Lane): void => void lanes.splice(there < 0 ? lanes.length : there, 1, lane);
  if (kind === 'more' || kind === 'other') put(aLane(queue, key, 3));
  else if (kind === 'empty') put(aLane(queue, key, 0));
  else if (there >= 0) {
    const [lane] = lanes.splice(there, 1);
    if (kind === 'move' && lane !== undefined) lanes.splice(at % (lanes.length + 1), 0, lane);
  }
}

test.each(makes)('what is remembered of the lanes changes no plan: %s', (_, make) => {
  fc.assert(
    fc.property(stories, (story) => {
      const used = make();
      let state: PolicyState = used.initial;
      let lanes: Lane[] = [];
      for (const { changes: all, batchMax } of story) {
        lanes = lanes.slice();
        for (const one of all) change(lanes, one);
        const snapshot = aSnapshot({ lanes, batchMax, pools: { default: aPool(20) } });
        const plan = used.plan(snapshot, state);
        const fresh = make().plan(snapshot, state);
        expect(plan.dispatch).toEqual(fresh.dispatch);
        expect(plan.state).toEqual(fresh.state);
        const ids = new Set(plan.dispatch.map(({ id }) => id));
        state = used.written?.(plan.state, { atMs: snapshot.nowMs, ids }) ?? plan.state;
        lanes = lanes.map((lane) =>
          lane.jobs.some(({ id }) => ids.has(id))
            ? { ...lane, jobs: lane.jobs.filter(({ id }) => !ids.has(id)) }
            : lane,
        );
      }
    }),
    { numRuns: 300 },
  );
});
