import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { CounterName, GaugeName, HistogramName, Role, Sink } from './instruments.ts';
import { counters, gauges, histograms, ofRole } from './instruments.ts';

/** Numbers as Prometheus scrapes them. */
export interface Exposition extends Sink {
  /** Forgets the values of all gauges that are read from the database. */
  readonly clear: () => void;
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/** The names under which Prometheus knows them. */
export const prometheusName = {
  counter: (name: CounterName): string => `pgqueue_${name}_total`,
  histogram: (name: HistogramName): string => `pgqueue_${name}_seconds`,
  gauge: (name: GaugeName): string => `pgqueue_${name}`,
} as const;

/** A registry of its own: several workers of one process don't meet. */
export function createExposition(role: Role): Exposition {
  const registry = new Registry();
  const registers = [registry];
  const counterOf = ofRole(role, counters, (name, { help, labels: labelNames }) => {
    return new Counter({ name: prometheusName.counter(name), help, labelNames, registers });
  });
  const histogramOf = ofRole(role, histograms, (name, { help, labels: labelNames, buckets }) => {
    return new Histogram({
      name: prometheusName.histogram(name),
      help,
      labelNames,
      buckets: [...buckets],
      registers,
    });
  });
  const gaugeOf = ofRole(role, gauges, (name, { help, labels: labelNames }) => {
    return new Gauge({ name: prometheusName.gauge(name), help, labelNames, registers });
  });
  const clear = (): void => {
    for (const [name, gauge] of gaugeOf) {
      if (name === 'leader') continue;
      gauge.reset();
      if (gauges[name].labels.length === 0) gauge.remove(); // it would be 0, which is a number
    }
  };
  clear();
  return {
    add: (name, labels, by) => counterOf.get(name)?.inc(labels, by),
    record: (name, labels, seconds) => histogramOf.get(name)?.observe(labels, seconds),
    set: (name, labels, value) => gaugeOf.get(name)?.set(labels, value),
    clear,
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
}
