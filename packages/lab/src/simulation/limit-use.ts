import { compareText } from '@pgqueue/core';
import type { Gauge } from './gauge.ts';
import type { SimLane } from './lanes.ts';
import type { LimitUse } from './result.ts';
import type { Run } from './run.ts';

/** Returns the use of the limits of queue_config over the time in which jobs waited. */
export function limitUse({ settings, queues }: Run, all: readonly SimLane[]): readonly LimitUse[] {
  const lanes = Map.groupBy(all, ({ queue }) => queue);
  return Object.entries(settings.queues)
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([queue, { concurrency, keyConcurrency, rate, keyRate }]): LimitUse[] => {
      const gauge = queues.get(queue);
      const whole = gauge === undefined ? [] : [gauge];
      const keys = (lanes.get(queue) ?? []).map((lane) => lane.gauge);
      return [
        ...(concurrency === null ? [] : [inFlight(queue, 'concurrency', concurrency, whole)]),
        ...(keyConcurrency === null ? [] : [inFlight(queue, 'keyConcurrency', keyConcurrency, keys)]),
        ...(rate === null ? [] : [dispatched(queue, 'rate', rate.perSecond, whole)]),
        ...(keyRate === null ? [] : [dispatched(queue, 'keyRate', keyRate.perSecond, keys)]),
      ];
    });
}

function inFlight(
  queue: string,
  kind: 'concurrency' | 'keyConcurrency',
  limit: number,
  gauges: readonly Gauge[],
): LimitUse {
  const area = sum(gauges, ({ inFlightBacklogged }) => inFlightBacklogged);
  const mean = meanOf(area, gauges);
  const max = gauges.reduce((most, { inFlightMax }) => Math.max(most, inFlightMax), 0);
  return { queue, kind, limit, mean, use: useOf(mean, limit), max };
}

function dispatched(
  queue: string,
  kind: 'rate' | 'keyRate',
  limit: number,
  gauges: readonly Gauge[],
): LimitUse {
  const mean = meanOf(
    sum(gauges, (gauge) => gauge.dispatchedBacklogged * 1_000),
    gauges,
  );
  return { queue, kind, limit, mean, use: useOf(mean, limit), max: null };
}

function meanOf(area: number, gauges: readonly Gauge[]): number | null {
  const ms = sum(gauges, ({ backloggedMs }) => backloggedMs);
  return ms === 0 ? null : area / ms;
}

function useOf(mean: number | null, limit: number): number | null {
  return mean === null || limit === 0 ? null : mean / limit;
}

function sum(gauges: readonly Gauge[], of: (gauge: Gauge) => number): number {
  return gauges.reduce((total, gauge) => total + of(gauge), 0);
}
