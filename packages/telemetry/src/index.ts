export type { Metrics, MetricsOptions, MetricsPage } from './metrics.ts';
export { createMetrics } from './metrics.ts';
export type { CounterName, GaugeName, HistogramName, Instrument, Label, Role } from './instruments.ts';
export { counters, gauges, histograms } from './instruments.ts';
export type { Numbers } from './numbers.ts';
export { prometheusName } from './prometheus.ts';
