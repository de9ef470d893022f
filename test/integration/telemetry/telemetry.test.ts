import {
  context,
  metrics,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Candidate } from '@pgqueue/core';
import { defineTask, fanOut, flow, implement, implementBatch, policy } from '@pgqueue/core';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import type { Scheduler } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import type { Worker } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const exporter = new InMemorySpanExporter();
const spans = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const numbers = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({
  exporter: numbers,
  exportIntervalMillis: 60_000,
  exportTimeoutMillis: 10_000,
});
const meters = new MeterProvider({ readers: [reader] });

const secret = 'sesame-4711';
const payload = z.object({ fails: z.number(), secret: z.string() });
const single = defineTask({ name: 'single', payload, retry: { base: 1, max: 1 } });
const bundled = defineTask({ name: 'bundled', payload: z.object({}) });
const strict = defineTask({ name: 'strict', payload: z.object({ n: z.number() }) });
const growing = defineTask({ name: 'growing', payload: z.object({}), queue: 'growing' });
let fails = 0;

const own = useDatabase({ connectionsMax: 1 });
const { database } = own;
let producer: Producer;
let scheduler: Scheduler;
let worker: Worker;

beforeAll(async () => {
  trace.setGlobalTracerProvider(spans);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  metrics.setGlobalMeterProvider(meters);
  producer = createProducer({ connectionString: own.url });
  const together = { when: ({ task }: Candidate) => task === 'bundled', max: 2, ageMs: 60_000 };
  scheduler = createScheduler({
    connectionString: own.url,
    policy: policy({ coalesce: [together] }),
    policyBudgetMs: 10_000, // no plan is cut off on a busy machine
  });
  worker = createWorker({
    connectionString: own.url,
    tasks: [
      implement(single, async (job, ctx) => {
        await ctx.progress(0.5);
        trace.getTracer('user').startSpan('of the handler').end();
        if (fails++ < job.fails)
          throw Object.assign(new Error('away'), { code: 'E_AWAY', detail: job.secret });
      }),
      implementBatch(bundled, () => {
        trace.getTracer('user').startSpan('of the handler').end();
      }),
      implement(strict, () => {}),
      implement(growing, async (_, { addJobs }) => {
        await addJobs([strict.job({ n: 1 })]);
        return fanOut([strict.job({ n: 2 })]);
      }),
    ],
  });
  await Promise.all([scheduler.start(), worker.start()]);
});
afterAll(async () => {
  await producer.close();
  await worker.stop();
  await scheduler.stop();
  await Promise.all([spans.shutdown(), meters.shutdown()]);
  // they belong to the process, which other files share
  for (const api of [trace, context, metrics]) api.disable();
});
beforeEach(() => {
  exporter.reset();
  fails = 0;
});

const named = (name: string): readonly ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name === name);
const some = (name: string, count: number): Promise<readonly ReadableSpan[]> =>
  until(`${count} spans "${name}"`, () => named(name).length >= count && named(name));
const linked = (span: ReadableSpan | undefined): readonly string[] =>
  (span?.links ?? []).map(({ context: { spanId } }) => spanId);
const id = (span: ReadableSpan | undefined): string | undefined => span?.spanContext().spanId;

test('an enqueue, its dispatch and every attempt are linked, and what a handler traces is below its attempt', async () => {
  const [parent, job] = await trace.getTracer('user').startActiveSpan('request', async (span) => {
    const enqueued = await producer.enqueue(single, { fails: 1, secret }, { queue: 'mail', key: 'acme' });
    span.end();
    return [span, enqueued] as const;
  });
  const [first, second] = await some('process mail', 2);
  const [dispatch] = await some('dispatch', 1);
  const [enqueue] = named('enqueue mail');
  expect(enqueue).toMatchObject({
    kind: SpanKind.PRODUCER,
    parentSpanContext: { spanId: parent.spanContext().spanId },
    attributes: {
      'messaging.system': 'pgqueue',
      'messaging.operation.name': 'enqueue',
      'messaging.operation.type': 'send',
      'messaging.destination.name': 'mail',
      'messaging.message.id': job.id,
      'pgqueue.task': 'single',
    },
  });
  expect([linked(first), linked(second), linked(dispatch)]).toEqual([
    [id(enqueue)],
    [id(enqueue)],
    [id(enqueue)],
  ]);
  expect(first).toMatchObject({
    kind: SpanKind.CONSUMER,
    status: { code: SpanStatusCode.ERROR, message: 'away' },
    attributes: {
      'messaging.operation.type': 'process',
      'messaging.message.id': job.id,
      'pgqueue.key': 'acme',
      'pgqueue.attempt': 1,
      'pgqueue.outcome': 'retry',
      'error.type': 'E_AWAY',
    },
  });
  expect(first?.parentSpanContext).toBeUndefined();
  expect(second).toMatchObject({
    status: { code: SpanStatusCode.UNSET },
    attributes: { 'pgqueue.attempt': 2, 'pgqueue.outcome': 'done' },
  });
  expect(named('of the handler').map((span) => span.parentSpanContext?.spanId)).toEqual([
    id(first),
    id(second),
  ]);
  const told = exporter
    .getFinishedSpans()
    .map(({ name, attributes, events, status }) => ({ name, attributes, events, status }));
  expect(JSON.stringify(told)).not.toContain(secret);
});

test('jobs that a handler adds are traced below its attempt', async () => {
  await producer.enqueue(growing, {});
  const added = await some('process default', 2);
  const [attempt] = named('process growing');
  const enqueues = named('enqueue default');
  expect(enqueues.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
    id(attempt),
    id(attempt),
  ]);
  expect(added.flatMap(linked).toSorted()).toEqual(enqueues.map((span) => String(id(span))).toSorted());
});

test('attempts of a flow tell it, and are linked to its start', async () => {
  const run = await producer.start(
    flow('count')
      .step('first', single.job({ fails: 0, secret }))
      .step('last', growing.job({}), { needs: ['first'] }),
  );
  const [first] = await some('process default', 1);
  const [last] = await some('process growing', 1);
  const start = exporter.getFinishedSpans().find(({ kind }) => kind === SpanKind.PRODUCER);
  expect(
    [first, last].map((span) => [span?.attributes['pgqueue.flow'], span?.attributes['pgqueue.step']]),
  ).toEqual([
    [run.id, 'first'],
    [run.id, 'last'],
  ]);
  expect([first, last].flatMap(linked)).toEqual([id(start), id(start)]);
});

test('the row carries W3C trace context that others can read, and keeps one that was given', async () => {
  await database.query(
    `insert into pgqueue.queue_config (queue, paused) values ('paused', true) on conflict do nothing`,
    [],
  );
  const given = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a=1' };
  await producer.enqueueMany([
    single.job({ fails: 0, secret }, { queue: 'paused' }),
    single.job({ fails: 0, secret }, { queue: 'paused', trace: given }),
  ]);
  const rows = await database.query<{ trace: object }>(
    `select trace from pgqueue.queue where queue = 'paused' order by seq`,
    [],
  );
  const [enqueue] = named('enqueue paused');
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const read = rows.map((row) => trace.getSpanContext(propagation.extract(ROOT_CONTEXT, row.trace))?.spanId);
  propagation.disable();
  expect(read).toEqual([id(enqueue), 'b7ad6b7169203331']);
  expect(enqueue?.attributes).toMatchObject({ 'messaging.batch.message_count': 2 });
});

test('a handler that takes bundles has one span for its call, linked to all, beside those of its attempts', async () => {
  const jobs = await producer.enqueueMany([
    bundled.job({}, { queue: 'many' }),
    bundled.job({}, { queue: 'many' }),
  ]);
  const outcomes = (): readonly ReadableSpan[] =>
    named('process many').filter(({ attributes }) => attributes['pgqueue.outcome'] === 'done');
  await until('both attempts to have ended', () => outcomes().length === jobs.length);
  const [enqueue] = named('enqueue many');
  expect(outcomes().map(linked)).toEqual([[id(enqueue)], [id(enqueue)]]);
  const call = named('process many').find(
    ({ attributes }) => attributes['messaging.batch.message_count'] === 2,
  );
  expect(linked(call)).toEqual([id(enqueue)]);
  expect(named('of the handler').map((span) => span.parentSpanContext?.spanId)).toEqual([id(call)]);
});

test('a payload that does not fit is an error that does not quote it', async () => {
  await producer.enqueueByName('strict', { n: secret }, { queue: 'wrong' });
  const [span] = await some('process wrong', 1);
  expect(span).toMatchObject({
    status: { code: SpanStatusCode.ERROR },
    attributes: { 'pgqueue.outcome': 'dead' },
  });
  expect(JSON.stringify([span?.attributes, span?.events, span?.status])).not.toContain(secret);
});

test.each(['single', 'bundled'])(
  'a trace that is none, as plain SQL may bring, costs neither a job of task %s nor its slot',
  async (task) => {
    const odd = [{}, [], 1, true, '', 'no trace state', '\u00e9=1'];
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const traces = [
      ...odd.map((tracestate) => ({ traceparent, tracestate })),
      ...odd.map((other) => ({ traceparent: other })),
      {},
      { tracestate: {} },
    ];
    const queue = `odd ${task}`;
    const inserted = await database.query<{ id: string }>(
      `insert into pgqueue.queue (queue, task, payload, trace)
       select $1, $2, '{"fails": 0, "secret": "none"}', t from unnest($3::jsonb[]) t returning id`,
      [queue, task, traces.map((one) => JSON.stringify(one))],
    );
    await until('all jobs to be done', async () => {
      const [row] = await database.query<{ done: number }>(
        'select count(*)::int as done from pgqueue.history where id = any ($1)',
        [inserted.map((row) => row.id)],
      );
      return row?.done === traces.length;
    });
    await until('every slot to be free', () => worker.running === 0);
    const outcomes = named(`process ${queue}`).filter(
      ({ attributes }) => attributes['pgqueue.outcome'] === 'done',
    );
    expect(outcomes).toHaveLength(traces.length);
  },
);

test('an enqueue that fails is an error of its span', async () => {
  const lonely = createProducer({ connectionString: own.url, schema: 'nowhere' });
  await expect(lonely.enqueue(single, { fails: 0, secret })).rejects.toThrow('pgqueue migrate');
  await lonely.close();
  const [span] = named('enqueue default');
  expect(span).toMatchObject({
    status: { code: SpanStatusCode.ERROR },
    attributes: { 'error.type': 'schema_version' },
  });
});

test('the same numbers go to an SDK for metrics, by the conventions’ names where there are some', async () => {
  await producer.enqueue(single, { fails: 0, secret }, { queue: 'counted' });
  const value = async (name: string, queue: string | null = 'counted'): Promise<number | undefined> => {
    numbers.reset();
    await meters.forceFlush();
    const all = numbers
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    const points = all.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [];
    const point = points.find(
      ({ attributes }) => (attributes['messaging.destination.name'] ?? null) === queue,
    );
    const found = point?.value;
    return typeof found === 'object' ? found.count : found;
  };
  await until('the job to be done', async () => (await value('pgqueue.jobs.done')) === 1);
  expect(await value('messaging.client.sent.messages')).toBe(1);
  expect(await value('messaging.client.consumed.messages')).toBe(1);
  expect(await value('messaging.process.duration')).toBe(1);
  expect(await value('pgqueue.jobs.dispatched')).toBe(1);
  expect(await value('pgqueue.leaders', null)).toBe(1);
  const scopes = numbers.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics);
  const units = Object.fromEntries(
    scopes.flatMap(({ metrics }) => metrics.map(({ descriptor }) => [descriptor.name, descriptor.unit])),
  );
  expect(units).toMatchObject({
    'messaging.client.sent.messages': '{message}',
    'messaging.client.consumed.messages': '{message}',
    'messaging.process.duration': 's',
    'pgqueue.jobs.done': '{job}',
    'pgqueue.leaders.elected': '{leader}',
  });
});
