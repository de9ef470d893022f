import type { ComponentType } from 'react';
import { memo } from 'react';
import type { Bucket, Overview } from '../../../../src/contract.ts';
import { exact, percent, short } from '../../format/numbers.ts';
import { shareTicks, spanTicks } from '../../format/ticks.ts';
import { span } from '../../format/times.ts';
import type { Point, Series } from '../../ui/charts/chart-props.ts';
import { Chart } from '../../ui/charts/chart.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { workerUse } from './worker-use.ts';

const throughput: readonly Series[] = [
  { name: 'done', label: 'done', color: 'var(--accent)' },
  { name: 'failures', label: 'failed attempts', color: 'var(--bad)' },
];

const waits: readonly Series[] = [
  { name: 'p50', label: 'p50', color: 'var(--accent)' },
  { name: 'p95', label: 'p95', color: 'var(--warn)' },
  { name: 'p99', label: 'p99', color: 'var(--bad)' },
];

const slotsInUse: readonly Series[] = [{ name: 'use', label: 'slots in use', color: 'var(--accent)' }];

/** Charts of an overview. They are memoized, so that a snapshot does not draw them again. */
export const Charts: ComponentType<{ readonly overview: Overview }> = memo(function Charts({ overview }) {
  const { buckets, stepMs, countedTo, workers, window } = overview;
  const step = window === 'hour' ? 'a minute' : 'a quarter of an hour';
  const points = (values: (bucket: Bucket) => Readonly<Record<string, number | null>>): readonly Point[] =>
    buckets.map((bucket) => ({ at: Date.parse(bucket.at), ...values(bucket) }));
  const use = buckets.map((bucket) => workerUse(bucket, { slots: workers.slots, stepMs, countedTo }));
  const most = Math.max(0, ...buckets.map(({ done }) => done));
  const busiest = Math.max(0, ...use.map((share) => share ?? 0));
  const slowest = Math.max(0, ...buckets.map(({ waitP99Ms }) => waitP99Ms ?? 0));
  return (
    <>
      <Panel title="Jobs ended" note={`jobs ${step}`}>
        <Chart
          kind="bars"
          points={points(({ done, failures }) => ({ done, failures }))}
          series={throughput}
          format={short}
          says={`Jobs done ${step}: at most ${exact(most)}`}
        />
      </Panel>
      <Panel title="Wait before start" note="quantiles">
        <Chart
          kind="lines"
          points={points(({ waitP50Ms, waitP95Ms, waitP99Ms }) => ({
            p50: waitP50Ms,
            p95: waitP95Ms,
            p99: waitP99Ms,
          }))}
          series={waits}
          format={span}
          says={`Waits: p99 at most ${span(slowest)}`}
          ticks={spanTicks(slowest)}
        />
      </Panel>
      <Panel title="Worker time" note="share of the slots">
        <Chart
          kind="area"
          points={buckets.map(({ at }, index) => ({ at: Date.parse(at), use: use[index] ?? null }))}
          series={slotsInUse}
          format={percent}
          says={`Worker time as a share of the slots: at most ${percent(busiest)}`}
          ticks={shareTicks(busiest)}
        />
      </Panel>
    </>
  );
});
