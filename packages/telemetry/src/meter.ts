import type { Attributes, Meter } from '@opentelemetry/api';
import { createNoopMeter, metrics } from '@opentelemetry/api';
import type { Instrument, Label, Labels, Role, Sink } from './instruments.ts';
import { counters, gauges, histograms, ofRole } from './instruments.ts';
import type { GaugeValue } from './numbers.ts';

/** Numbers by OpenTelemetry's API, once an SDK is there. */
export interface MeterSink extends Pick<Sink, 'add' | 'record'> {
  /** True while somebody listens. Otherwise no measurement need be put together. */
  readonly listens: () => boolean;
  readonly stop: () => void;
}

const scope = '@pgqueue/telemetry';
const none = createNoopMeter();

/** The names under which OpenTelemetry knows them: those of its conventions for messaging, else ours. */
export function meterName(name: string, { convention }: Instrument): string {
  return convention ?? `pgqueue.${name.replace(/_seconds$/, '').replaceAll('_', '.')}`;
}

const attributeOf: Readonly<Record<Label, string>> = {
  queue: 'messaging.destination.name',
  task: 'pgqueue.task',
  key: 'pgqueue.key',
  flow: 'pgqueue.flow',
  state: 'pgqueue.state',
  reason: 'pgqueue.reason',
  pool: 'pgqueue.pool',
  part: 'pgqueue.part',
  during: 'pgqueue.during',
};

/** Attributes that instruments of the semantic conventions have besides their labels. */
const operations: Readonly<Record<string, Attributes>> = {
  'messaging.client.sent.messages': {
    'messaging.operation.name': 'enqueue',
    'messaging.operation.type': 'send',
  },
  'messaging.client.consumed.messages': {
    'messaging.operation.name': 'claim',
    'messaging.operation.type': 'receive',
  },
  'messaging.process.duration': {
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
  },
};

/** Labels as OpenTelemetry's attributes. */
export function meterAttributes(name: string, labels: Labels): Attributes {
  const own = Object.entries(labels).map(([label, value]) => [attributeOf[label as Label], value] as const);
  return { 'messaging.system': 'pgqueue', ...operations[name], ...Object.fromEntries(own) };
}

/** Labels are the same objects again and again: their attributes are put together once. */
function remembered(name: string): (labels: Labels) => Attributes {
  const known = new WeakMap<Labels, Attributes>();
  return (labels) => {
    const found = known.get(labels);
    if (found !== undefined) return found;
    const made = meterAttributes(name, labels);
    known.set(labels, made);
    return made;
  };
}

/** `read` gives the gauges, where this process has some. */
export function createMeterSink(role: Role, read?: () => Promise<readonly GaugeValue[]>): MeterSink {
  let meter: Meter = none;
  let adds: ReadonlyMap<string, (labels: Labels, by: number) => void> = new Map();
  let records: typeof adds = new Map();
  let stopGauges = (): void => {};

  /** Instruments that were made before an SDK was there would stay deaf: so they are made when there is one. */
  const listens = (): boolean => {
    if (meter !== none) return true;
    const found = metrics.getMeter(scope);
    if (found === none) return false;
    meter = found;
    adds = ofRole(role, counters, (name, instrument) => {
      const as = meterName(name, instrument);
      const counter = found.createCounter(as, { description: instrument.help, unit: instrument.unit });
      const attributes = remembered(as);
      return (labels, by) => counter.add(by, attributes(labels));
    });
    records = ofRole(role, histograms, (name, instrument) => {
      const as = meterName(name, instrument);
      const advice = { explicitBucketBoundaries: [...instrument.buckets] };
      const histogram = found.createHistogram(as, { description: instrument.help, unit: 's', advice });
      const attributes = remembered(as);
      return (labels, seconds) => histogram.record(seconds, attributes(labels));
    });
    if (read !== undefined) stopGauges = observeGauges(found, read);
    return true;
  };

  return {
    listens,
    add: (name, labels, by) => adds.get(name)?.(labels, by),
    record: (name, labels, seconds) => records.get(name)?.(labels, seconds),
    stop: () => stopGauges(),
  };
}

function observeGauges(meter: Meter, read: () => Promise<readonly GaugeValue[]>): () => void {
  const observables = new Map(
    (Object.entries(gauges) as [GaugeValue['name'], Instrument][]).map(([name, instrument]) => {
      const unit = name.endsWith('_seconds') ? 's' : '1';
      return [
        name,
        meter.createObservableGauge(meterName(name, instrument), { description: instrument.help, unit }),
      ];
    }),
  );
  const all = [...observables.values()];
  const observe: Parameters<Meter['addBatchObservableCallback']>[0] = async (result) => {
    for (const { name, labels, value } of await read()) {
      const observable = observables.get(name);
      if (observable !== undefined) result.observe(observable, value, meterAttributes(name, labels));
    }
  };
  meter.addBatchObservableCallback(observe, all);
  return () => meter.removeBatchObservableCallback(observe, all);
}
