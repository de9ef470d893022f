// Measures the cost of telemetry for each job, by the listeners in use: `npm run bench:telemetry`. Prints
// nanoseconds of processor time a call, the median of nine runs.
import { context, metrics, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import type { PgQueueEvent } from '@pgqueue/core';
import { createMetrics } from '@pgqueue/telemetry';
import { startAttempt, traceSend } from '@pgqueue/telemetry/internal';

const calls = 50_000;
const runs = 9;

const job = {
  id: '0198a3c2-5b1e-7000-8000-0000000000aa',
  queue: 'mail',
  task: 'hello',
  key: 'acme',
  trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
  tries: 0,
  crashes: 0,
} as const;
const { id, queue, task, key } = job;
const started: PgQueueEvent = { type: 'job.started', job: id, queue, task, key, attempt: 1, waitedMs: 12 };
const settled: PgQueueEvent = { type: 'job.settled', job: id, queue, task, verdict: 'done', durationMs: 34 };

async function nanoseconds(work: () => unknown): Promise<number> {
  const each: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    const from = process.cpuUsage();
    for (let call = 0; call < calls; call += 1) {
      const given = work();
      if (given instanceof Promise) await given;
    }
    const { user, system } = process.cpuUsage(from);
    each.push((1_000 * (user + system)) / calls);
  }
  return Math.round(each.toSorted((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN);
}

async function measureAll(who: string): Promise<void> {
  const sending = (): { queue: string; task: string; jobs: number } => ({ queue, task, jobs: 1 });
  const written = Promise.resolve([]);
  const plain = await nanoseconds(() => written);
  const send = await nanoseconds(() =>
    traceSend(
      sending,
      () => written,
      () => [],
    ),
  );
  const attempt = await nanoseconds(() => {
    const span = startAttempt(job);
    span?.run(() => null);
    span?.end('done');
  });
  for (const prometheus of [false, true]) {
    const { observe } = createMetrics({ role: 'worker', prometheus });
    const both = await nanoseconds(() => {
      observe(started);
      observe(settled);
    });
    console.log(`${who}${prometheus ? ' and /metrics' : ''}: metrics of an attempt ${both} ns`);
  }
  console.log(`${who}: span of an enqueue ${send - plain} ns, of an attempt ${attempt} ns`);
}

await measureAll('nobody listens');
trace.setGlobalTracerProvider(new TracerProvider());
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({
  exporter,
  exportIntervalMillis: 3_600_000,
  exportTimeoutMillis: 1_000,
});
const meters = new MeterProvider({ readers: [reader] });
metrics.setGlobalMeterProvider(meters);
await measureAll('an SDK listens');
await meters.shutdown();
