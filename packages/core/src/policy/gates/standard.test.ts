import { describe, expect, test } from 'vitest';
import type { Json } from '../../job/job.ts';
import { aJob, anItem, aSnapshot, lanesOf, nowMs } from '../../testing/snapshots.ts';
import { policy } from '../compose/compose.ts';
import { fifo } from '../orders/ranked.ts';
import type { PolicyState } from '../plan.ts';
import { neverMs } from '../policy.ts';
import type { JobFacts, QueueSeen, Snapshot } from '../snapshot.ts';
import { defaultQueue } from '../snapshot.ts';

const made = policy({ order: fifo() });

const jobs = ['a', 'a', 'b', 'b'].flatMap((key, index) => [
  aJob({ seq: index, queue: 'mail', key }),
  aJob({ seq: index + 10, queue: 'free', key }),
]);

function seen(mail: Partial<QueueSeen>, more: Partial<Snapshot> = {}): Snapshot {
  return aSnapshot({ lanes: lanesOf(jobs), queues: { mail: { ...defaultQueue, ...mail } }, ...more });
}

/** Returns how many jobs of the limited queue go, and how the first of them is held afterwards. */
function mails(snapshot: Snapshot, state: PolicyState = made.initial) {
  const plan = made.plan(snapshot, state);
  const goes = plan.dispatch.filter(({ id }) => Number(id.slice(3)) < 10);
  expect(plan.dispatch.length - goes.length).toBe(4);
  return { goes: goes.map(({ id }) => id), held: plan.held, state: plan.state, nextMs: plan.nextMs };
}

function why(snapshot: Snapshot, job: JobFacts, state: PolicyState = made.initial): unknown {
  const [lane] = lanesOf([job]);
  if (lane === undefined) throw new Error('a job has a lane');
  return made.explain?.(snapshot, state, job, lane).holds;
}

describe('the settings of a queue', () => {
  test('a pause', () => {
    const snapshot = seen({ paused: true });
    expect(mails(snapshot)).toMatchObject({ goes: [], held: { mail: { paused_queue: 4 } } });
    expect(why(snapshot, jobs[0] as JobFacts)).toEqual([
      { gate: 'paused_queue', message: 'queue mail is paused', untilMs: null },
    ]);
  });

  test('a key that moves between installations', () => {
    const snapshot = seen({}, { moving: ['a'] });
    const plan = made.plan(snapshot, made.initial);
    expect(plan.dispatch.map(({ id }) => id).toSorted()).toEqual(['job12', 'job13', 'job2', 'job3']);
    expect(plan.held).toEqual({ mail: { moving: 2 }, free: { moving: 2 } });
    expect(why(snapshot, jobs[0] as JobFacts)).toMatchObject([{ gate: 'moving', untilMs: null }]);
  });

  test('a rate of each key begins empty where a key has moved to', () => {
    const mail = jobs.filter(({ queue }) => queue === 'mail');
    const queues = { mail: { ...defaultQueue, keyRate: { perSecond: 1, burst: 2 } } };
    const idle = aSnapshot({ queues, lanes: [], moving: ['a'] });
    const { state } = made.plan(idle, made.initial);
    const after = made.plan(aSnapshot({ queues, lanes: lanesOf(mail) }), state);
    expect(after.dispatch.map(({ id }) => id)).toEqual(['job2', 'job3']);
    expect(after).toMatchObject({ held: { mail: { key_rate: 2 } }, nextMs: nowMs + 1_000 });
    const before = made.plan(aSnapshot({ queues, lanes: lanesOf(mail) }), made.initial);
    expect(before.dispatch).toHaveLength(4);
  });

  test('concurrency of the queue', () => {
    const inFlight = [1, 2].map((seq) => anItem({ seq: 90 + seq, queue: 'mail', key: `x${seq}` }));
    const snapshot = seen({ concurrency: 3 }, { inFlight });
    expect(mails(snapshot)).toMatchObject({ goes: ['job0'], held: { mail: { queue_concurrency: 3 } } });
    expect(why(seen({ concurrency: 2 }, { inFlight }), jobs[0] as JobFacts)).toEqual([
      { gate: 'queue_concurrency', message: 'queue mail has 2 of 2 in flight', untilMs: null, paced: true },
    ]);
  });

  test('concurrency of each key', () => {
    const inFlight = [anItem({ seq: 91, queue: 'mail', key: 'a' })];
    const snapshot = seen({ keyConcurrency: 1 }, { inFlight });
    expect(mails(snapshot)).toMatchObject({ goes: ['job2'], held: { mail: { key_concurrency: 3 } } });
    expect(why(snapshot, jobs[0] as JobFacts)).toEqual([
      {
        gate: 'key_concurrency',
        message: 'key a of queue mail has 1 of 1 in flight',
        untilMs: null,
        paced: true,
      },
    ]);
    const none = aJob({ seq: 1, queue: 'mail' });
    expect(why(seen({ keyConcurrency: 0 }), none)).toMatchObject([
      {
        message: 'the empty key of queue mail has 0 of 0 in flight; nothing goes until that limit is raised',
        untilMs: neverMs,
      },
    ]);
  });

  test('rate of the queue', () => {
    const snapshot = seen({ rate: { perSecond: 2, burst: 3 } });
    const plan = mails(snapshot);
    expect(plan).toMatchObject({
      goes: ['job0', 'job1', 'job2'],
      held: { mail: { queue_rate: 1 } },
      nextMs: nowMs + 500,
    });
    expect(why(snapshot, jobs[0] as JobFacts, plan.state)).toEqual([
      {
        gate: 'queue_rate',
        message: 'queue mail is at its rate of 2 a second with a burst of 3: 0 left; enough in 500 ms',
        untilMs: nowMs + 500,
      },
    ]);
  });

  test('rate of each key', () => {
    const snapshot = seen({ keyRate: { perSecond: 2, burst: 1 } });
    const plan = mails(snapshot);
    expect(plan).toMatchObject({ goes: ['job0', 'job2'], held: { mail: { key_rate: 2 } } });
    expect(why(snapshot, jobs[0] as JobFacts, plan.state)).toMatchObject([
      {
        message:
          'key a of queue mail is at its rate of 2 a second with a burst of 1: 0 left; enough in 500 ms',
      },
    ]);
  });

  test('all of them together: each counts, and explain names each that holds', () => {
    const limits: Partial<QueueSeen> = {
      concurrency: 3,
      keyConcurrency: 2,
      rate: { perSecond: 1, burst: 2 },
      keyRate: { perSecond: 1, burst: 1 },
    };
    const plan = mails(seen(limits));
    expect(plan.goes).toEqual(['job0', 'job2']);
    const inFlight = [80, 81, 82].map((seq) => anItem({ seq, queue: 'mail', key: 'a' }));
    const holds = why(seen({ ...limits, paused: true }, { inFlight }), jobs[0] as JobFacts, plan.state);
    expect((holds as { gate: string }[]).map(({ gate }) => gate)).toEqual([
      'paused_queue',
      'queue_concurrency',
      'key_concurrency',
      'queue_rate',
      'key_rate',
    ]);
  });

  test('the same key of another queue is another one', () => {
    const both = { ...defaultQueue, keyConcurrency: 1, keyRate: { perSecond: 1, burst: 1 } };
    const snapshot = aSnapshot({ lanes: lanesOf(jobs), queues: { mail: both, free: both } });
    const { dispatch } = made.plan(snapshot, made.initial);
    expect(dispatch.map(({ id }) => id)).toEqual(['job0', 'job2', 'job10', 'job12']);
  });
});

describe('a rate that is changed while running', () => {
  const at = (rate: QueueSeen['rate'], ms: number): Snapshot => seen({ rate }, { nowMs: nowMs + ms });
  const write = (state: PolicyState, ms: number): PolicyState =>
    made.written?.(state, { atMs: nowMs + ms, ids: new Set(jobs.map(({ id }) => id)) }) ?? state;

  test('a greater one counts from then on, a greater burst is not there at once', () => {
    const slow = { perSecond: 0.001, burst: 2 };
    const first = mails(at(slow, 0));
    expect(first.goes).toHaveLength(2);
    let state = write(first.state, 0);
    const fast = { perSecond: 1, burst: 100 };
    const second = mails(at(fast, 60_000), state);
    expect(second.goes).toEqual([]);
    expect(second.nextMs).toBeLessThanOrEqual(nowMs + 61_000);
    state = write(second.state, 60_000);
    expect(mails(at(fast, 61_000), state).goes).toHaveLength(1);
    expect(mails(at(fast, 64_000), state).goes).toHaveLength(4);
  });

  test('a smaller burst takes away what is above it', () => {
    const first = mails(at({ perSecond: 1, burst: 10 }, 0));
    expect(first.goes).toHaveLength(4);
    expect(mails(at({ perSecond: 1, burst: 2 }, 0), write(first.state, 0)).goes).toHaveLength(2);
  });

  test('without one, all go', () => {
    const { state } = mails(at({ perSecond: 1, burst: 1 }, 0));
    expect(mails(at(null, 0), write(state, 0)).goes).toHaveLength(4);
  });
});

describe('buckets of the keys of queues in which nothing goes', () => {
  const keyRate = { perSecond: 1, burst: 1 };
  const limited = { ...defaultQueue, keyRate };
  const waiting = (queue: string): Snapshot['lanes'] => lanesOf(jobs.filter((job) => job.queue === queue));
  /** Plans jobs of one queue, and writes them. Returns the queues whose buckets are stored then. */
  const go = (queue: string, ms: number, state: PolicyState, queues: Snapshot['queues']) => {
    const atMs = nowMs + ms;
    const plan = made.plan(aSnapshot({ nowMs: atMs, lanes: waiting(queue), queues }), state);
    const ids = new Set(plan.dispatch.map(({ id }) => id));
    expect(ids.size).toBe(2);
    const after = made.written?.(plan.state, { atMs, ids }) ?? plan.state;
    return { after, queues: Object.keys(after['key_rate'] as object) };
  };

  test.each([
    ['that have a rate', { mail: limited, free: limited }],
    ['that have none any more', { mail: defaultQueue, free: limited }],
  ])('%s are kept until they are full, and then no longer', (_, queues) => {
    const { after } = go('mail', 0, made.initial, { mail: limited, free: limited });
    expect(go('free', 500, after, queues).queues.toSorted()).toEqual(['free', 'mail']);
    expect(go('free', 20_000, after, queues).queues).toEqual(['free']);
  });
});

describe('a new leader', () => {
  const keyRate = { perSecond: 1, burst: 1 };

  test('knows what the keys were charged', () => {
    const { state } = mails(seen({ keyRate }));
    const saved = JSON.parse(JSON.stringify(state['key_rate'])) as Json;
    const restored = made.restore?.({ key_rate: { state: saved, savedMs: nowMs } });
    expect(mails(seen({ keyRate }), restored).goes).toEqual([]);
    expect(mails(seen({ keyRate }, { nowMs: nowMs + 1_000 }), restored).goes).toEqual(['job0', 'job2']);
  });

  test.each([null, 'x', [], { mail: 5 }, { mail: { a: [1] } }])(
    'begins anew where the saved part is none: %o',
    (saved) => {
      const restored = made.restore?.({ key_rate: { state: saved, savedMs: nowMs } });
      expect(restored?.['key_rate']).toEqual({});
      expect(mails(seen({ keyRate }), restored).goes).toEqual(['job0', 'job2']);
    },
  );
});

test('a limit of 0 holds all', () => {
  expect(mails(seen({ concurrency: 0 }))).toMatchObject({ goes: [], nextMs: null });
});
