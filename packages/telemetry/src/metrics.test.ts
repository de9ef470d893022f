import type { PgQueueEvent } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { createBounded, other } from './bounded.ts';
import { createMetrics } from './metrics.ts';
import type { Numbers } from './numbers.ts';
import { gaugeValues, queuesMax } from './numbers.ts';
import { carriedOf, spanContextOf } from './tracing.ts';

type Queue = Numbers['queues'][number];

function queue(name: string, more: Partial<Queue> = {}): Queue {
  const none = { delayed: 0, pending: 0, ready: 0, running: 0, dead: 0 };
  const ages = { oldestMs: null, claimAgeMs: null, failedAttempts: 0, attempts: 0 };
  return { queue: name, exact: true, paused: false, ...none, ...ages, ...more };
}

function numbers(more: Partial<Numbers> = {}): Numbers {
  return {
    queues: [],
    keys: [],
    nodes: { alive: 1, draining: 0, overdue: 0, lost: 0, slots: 10 },
    leader: { leader: 's', epoch: 3 },
    report: null,
    oldestSnapshotMs: null,
    ...more,
  };
}

const settled = (queueName: string, task: string): PgQueueEvent => ({
  type: 'job.settled',
  job: 'j',
  queue: queueName,
  task,
  verdict: 'done',
  durationMs: 5,
});

async function textOf(events: readonly PgQueueEvent[]): Promise<string> {
  const { observe, page } = createMetrics({ role: 'worker', prometheus: true });
  for (const event of events) observe(event);
  return (await page?.())?.text ?? '';
}

test('however many queues and tasks there are, so many series at most, and their sum stays right', async () => {
  const events = Array.from({ length: 3_000 }, (_, n) => settled(`queue ${n % 300}`, `task ${n}`));
  const lines = (await textOf(events))
    .split('\n')
    .filter((line) => line.startsWith('pgqueue_jobs_done_total{'));
  expect(lines.length).toBeLessThanOrEqual(800);
  expect(lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)).toBe(3_000);
  expect(
    lines.some((line) => line.startsWith(`pgqueue_jobs_done_total{queue="${other}",task="${other}"}`)),
  ).toBe(true);
});

test('a name that was counted first keeps its series', () => {
  const bounded = createBounded();
  const first = bounded.labels({ queue: 'mail', task: 'hello' });
  for (let n = 0; n < 1_000; n += 1) bounded.labels({ queue: `q${n}`, task: `t${n}` });
  expect(bounded.labels({ queue: 'mail', task: 'hello' })).toBe(first);
  expect(bounded.labels({ queue: 'new', task: 'new' })).toEqual({ queue: other, task: other });
  expect(bounded.labels({ queue: 'mail', task: 'new' })).toEqual({ queue: 'mail', task: other });
});

test('however many names flows have, so many series at most', async () => {
  const { observe, page } = createMetrics({ role: 'scheduler', prometheus: true });
  for (let n = 0; n < 300; n += 1)
    observe({ type: 'flow.ended', flow: `f${n}`, name: `import of customer ${n}`, state: 'done' });
  const lines = ((await page?.())?.text ?? '')
    .split('\n')
    .filter((line) => line.startsWith('pgqueue_flows_ended_total{'));
  expect(lines).toHaveLength(101);
  expect(lines).toContain(`pgqueue_flows_ended_total{flow="${other}",state="done"} 200`);
});

test('hostile names are escaped, not lines of their own', async () => {
  const text = await textOf([settled('a"} 1\nforged 7', 'b\\')]);
  expect(text).not.toMatch(/^forged/m);
  expect(text).toContain(String.raw`queue="a\"} 1\nforged 7",task="b\\"`);
});

test('a wait counts once a job, and what is no number is no series', async () => {
  const started = {
    type: 'job.started',
    job: 'j',
    queue: 'mail',
    task: 'hello',
    key: 'k',
    waitedMs: 500,
  } as const;
  const text = await textOf([
    { ...started, attempt: 1 },
    { ...started, attempt: 2 },
    { type: 'node.registered', node: 'n', incarnation: 'i' },
  ]);
  expect(text).toContain('pgqueue_job_wait_seconds_count{queue="mail",task="hello"} 1');
  expect(text).toContain('pgqueue_jobs_started_total{queue="mail",task="hello"} 2');
  expect(text).not.toMatch(/key=|node=/);
});

test('the queues with the most jobs are named, the rest is one, with its oldest', () => {
  const many = Array.from({ length: queuesMax + 50 }, (_, n) =>
    queue(`q${n}`, { pending: n + 1, oldestMs: 1_000 * n }),
  );
  const values = gaugeValues(numbers({ queues: many }));
  const pending = values.filter(({ name, labels }) => name === 'queue_jobs' && labels.state === 'pending');
  expect(pending).toHaveLength(queuesMax + 1);
  expect(pending.reduce((sum, { value }) => sum + value, 0)).toBe(((queuesMax + 50) * (queuesMax + 51)) / 2);
  const rest = values.find(({ name, labels }) => name === 'queue_oldest_seconds' && labels.queue === other);
  expect(rest?.value).toBe(49);
});

test('keys, reasons and pools that are not told apart are summed, and so is what is named as the rest is', () => {
  const many = Array.from({ length: queuesMax + 20 }, (_, n) => n);
  const key = { pending: 1, ready: 0, running: 0 };
  const each = (name: string, value: number): Readonly<Record<string, number>> =>
    Object.fromEntries(many.map((n) => [`${name} ${n}`, value]));
  const values = gaugeValues(
    numbers({
      queues: [
        queue(other, { pending: 900, oldestMs: 5_000 }),
        ...many.map((n) => queue(`q${n}`, { pending: 200 - n })),
      ],
      keys: [
        ...many.map((n) => ({ queue: `q${n}`, key: null, ...key })),
        { queue: 'q0', key: other, ...key, pending: 50 },
      ],
      report: {
        ageMs: 1,
        stale: false,
        held: { q0: { ...each('gate', 2), [other]: 3 } },
        wanted: { ...each('pool', 1), [other]: 7 },
      },
    }),
  );
  const series = values.map(({ name, labels }) => JSON.stringify([name, labels]));
  expect(new Set(series).size).toBe(series.length);
  const of = (name: string, labels: object): unknown =>
    values.find((one) => one.name === name && JSON.stringify(one.labels) === JSON.stringify(labels))?.value;
  expect(of('queue_jobs', { queue: other, state: 'pending' })).toBe(900 + 21 * 91);
  expect(of('queue_oldest_seconds', { queue: other })).toBe(5);
  expect(of('key_jobs', { queue: 'q0', key: other, state: 'pending' })).toBe(51);
  expect(of('key_jobs', { queue: other, key: other, state: 'pending' })).toBe(21);
  expect(of('held_jobs', { queue: 'q0', reason: other })).toBe(3 + 2 * 21);
  expect(of('wanted_slots', { pool: other })).toBe(7 + 21);
});

test('a report of an earlier leader says nothing of what is held', () => {
  const report = { ageMs: 1, held: { mail: { gate: 3 }, video: { gate: 4 } } };
  const held = (stale: boolean): readonly unknown[] =>
    gaugeValues(numbers({ queues: [queue('mail')], report: { ...report, stale } }))
      .filter(({ name }) => name === 'held_jobs')
      .map(({ labels, value }) => [labels.queue, value]);
  expect(held(false)).toEqual([
    ['mail', 3],
    [other, 4],
  ]);
  expect(held(true)).toEqual([]);
});

test('trace context goes to the row and back', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const found = spanContextOf({ traceparent, tracestate: 'a=1,b=2' });
  expect(found).toMatchObject({ spanId: 'b7ad6b7169203331', traceFlags: 1, isRemote: true });
  expect(found === undefined ? undefined : carriedOf(found)).toEqual({ traceparent, tracestate: 'a=1,b=2' });
  const none = '00-00000000000000000000000000000000-b7ad6b7169203331-01';
  for (const wrong of [none, traceparent.replace('00-', 'ff-'), 'nonsense']) {
    expect(spanContextOf({ traceparent: wrong })).toBeUndefined();
  }
});
