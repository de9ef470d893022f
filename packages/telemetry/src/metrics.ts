import type { Observer } from '@pgqueue/core';
import { createBounded } from './bounded.ts';
import type { Role, Sink } from './instruments.ts';
import { measure } from './measure.ts';
import { createMeterSink } from './meter.ts';
import type { GaugeValue, Numbers } from './numbers.ts';
import { gaugeValues } from './numbers.ts';
import { createExposition } from './prometheus.ts';

/** Identifies the process, and names the receivers of its metrics. */
export interface MetricsOptions {
  readonly role: Role;
  /** Keeps the metrics for Prometheus, too. Without it, and without an OpenTelemetry SDK, nothing is counted. */
  readonly prometheus: boolean;
}

/** Answers a scrape. */
export interface MetricsPage {
  readonly contentType: string;
  readonly text: string;
}

/** The metrics of one process. */
export interface Metrics {
  readonly observe: Observer;
  /** True while anybody listens. Otherwise events of jobs need not be put together. */
  readonly listens: () => boolean;
  /** For Prometheus; undefined: they are not kept. Never fails: where the database can't be read, `pgqueue_numbers_up` is 0, and its numbers are missing. */
  readonly page: (() => Promise<MetricsPage>) | undefined;
  /** From now on it tells of the database, too: `read` is asked at every scrape, so share it. */
  readonly tellOf: (read: () => Promise<Numbers>) => void;
  /** Tells OpenTelemetry no more. */
  readonly stop: () => void;
}

/** A scrape does not wait longer for the database: Prometheus itself waits for 10 s. */
const readWithinMs = 5_000;

/** Counts what happens, for OpenTelemetry's API and for Prometheus. */
export function createMetrics({ role, prometheus }: MetricsOptions): Metrics {
  const exposition = prometheus ? createExposition(role) : undefined;
  const bounded = createBounded();
  let leads = 0;
  let read: (() => Promise<Numbers>) | undefined;
  const values = async (): Promise<readonly GaugeValue[]> => {
    if (read === undefined) return [];
    const own: GaugeValue[] = [{ name: 'leader', labels: {}, value: leads }];
    const numbers = await inTime(read());
    if (numbers === undefined) return [...own, { name: 'numbers_up', labels: {}, value: 0 }];
    return [...own, { name: 'numbers_up', labels: {}, value: 1 }, ...gaugeValues(numbers)];
  };
  const meter = createMeterSink(role, role === 'scheduler' ? values : undefined);
  const sink: Sink = {
    add: (name, given, by) => {
      const labels = bounded.labels(given);
      exposition?.add(name, labels, by);
      meter.add(name, labels, by);
    },
    record: (name, given, seconds) => {
      const labels = bounded.labels(given);
      exposition?.record(name, labels, seconds);
      meter.record(name, labels, seconds);
    },
    set: (name, _labels, value) => {
      if (name === 'leader') leads = value;
    },
  };
  return {
    observe: (event) => {
      if (exposition !== undefined || meter.listens()) measure(event, sink);
      else if (event.type.startsWith('leader.')) measure(event, { ...sink, add: nothing, record: nothing });
    },
    listens: () => exposition !== undefined || meter.listens(),
    page:
      exposition === undefined
        ? undefined
        : async () => {
            const now = await values();
            exposition.clear();
            for (const { name, labels, value } of now) exposition.set(name, labels, value);
            return { contentType: exposition.contentType, text: await exposition.text() };
          },
    tellOf: (given) => {
      read = given;
    },
    stop: meter.stop,
  };
}

const nothing = (): void => {};

/** Undefined: it failed, or took too long. */
async function inTime<Result>(work: Promise<Result>): Promise<Result | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), readWithinMs);
  });
  try {
    return await Promise.race([work, late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
