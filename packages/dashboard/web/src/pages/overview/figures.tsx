import type { ReactNode } from 'react';
import type { FlowCounts, FlowState, LiveSnapshot, Overview, Quantiles } from '../../../../src/contract.ts';
import { counted, percent, perSecond } from '../../format/numbers.ts';
import { span } from '../../format/times.ts';
import { CountOf, sum } from '../../ui/counts.tsx';
import { Num } from '../../ui/numbers.tsx';
import type { Figure } from '../../ui/frame/panel.tsx';
import { Figures } from '../../ui/frame/panel.tsx';
import { to } from '../../ui/lists/filters.tsx';
import { Nothing, To } from '../../ui/text.tsx';
import { Span } from '../../ui/time.tsx';

interface NowProps {
  readonly overview: Overview;
  readonly live: LiveSnapshot | undefined;
  readonly queue: string | undefined;
}

/** Retry rate above which the figure is marked as a warning. */
const retryRateMax = 0.2;

/** Figures of the present, from the newest snapshot. */
export function NowFigures({ overview, live, queue }: NowProps): ReactNode {
  const ofQueue = live?.queues.find((one) => one.queue === queue);
  const now = (queue === undefined ? live?.totals : ofQueue) ?? overview.now;
  const workers = live?.workers ?? overview.workers;
  const figures: readonly Figure[] = [
    {
      label: 'Waiting',
      value: <CountOf of={sum(now.pending, now.ready)} />,
      note: now.delayed.count > 0 ? <Delayed of={now.delayed} /> : 'jobs',
    },
    { label: 'Oldest waiting', value: <Span ms={now.oldestMs} />, note: 'due, not running' },
    {
      label: 'Running',
      value: <CountOf of={now.running} />,
      note: `${counted(workers.slots, 'slot')}, ${counted(workers.nodes, 'node')}`,
    },
    { label: 'Oldest claim', value: <Span ms={now.claimAgeMs} />, note: 'held by a node' },
    {
      label: 'Worker use',
      value: workers.use === null ? <Nothing says="no slots" /> : percent(workers.use),
      note: <Leases of={workers} />,
      tone: workers.slots === 0 ? 'warn' : undefined,
    },
    {
      label: 'Throughput',
      value: <Throughput overview={overview} live={live} queue={queue} />,
      note: 'jobs done',
    },
    {
      label: 'Retry rate',
      value: now.retryRate === null ? <Nothing says="no attempts" /> : percent(now.retryRate),
      note: 'last 5 min',
      tone: (now.retryRate ?? 0) > retryRateMax ? 'warn' : undefined,
    },
    {
      label: 'Dead',
      value: <CountOf of={now.dead} />,
      note: 'dead letters',
      tone: now.dead.count > 0 ? 'bad' : undefined,
    },
  ];
  const flows = queue === undefined ? flowFigures(live?.flows ?? overview.flows) : [];
  return <Figures figures={[...figures, ...flows]} />;
}

/** Figures of flows, where there are any. */
function flowFigures({ open, failed, oldestMs }: FlowCounts): readonly Figure[] {
  return [
    ...(open.count === 0
      ? []
      : [
          {
            label: 'Open flows',
            value: <FlowLink state="open" of={open} />,
            note: oldestMs === null ? undefined : `oldest ${span(oldestMs)}`,
          },
        ]),
    ...(failed.count === 0
      ? []
      : [
          {
            label: 'Failed flows',
            value: <FlowLink state="failed" of={failed} />,
            note: 'last 7 days',
            tone: 'bad' as const,
          },
        ]),
  ];
}

function FlowLink({ state, of }: { readonly state: FlowState; readonly of: FlowCounts['open'] }): ReactNode {
  return (
    <To to={to('/flows', { state })}>
      <CountOf of={of} />
    </To>
  );
}

/** Tells why leases exceed the slots in use, where they do. */
function Leases({ of: { leases, slotsInUse } }: { readonly of: Overview['workers'] }): ReactNode {
  return (
    <span title="of all nodes, also of those that drain, and of batches that are claimed ahead">
      {counted(leases, 'lease')}
      {leases > slotsInUse && ', with those claimed ahead'}
    </span>
  );
}

function Delayed({ of }: { readonly of: Overview['now']['delayed'] }): ReactNode {
  return (
    <>
      and <CountOf of={of} /> delayed
    </>
  );
}

/**
 * Rate of jobs done: for all queues from the snapshot; for one queue, and before the first snapshot, from the
 * newest complete bucket.
 */
function Throughput({ overview, live, queue }: NowProps): ReactNode {
  const now = queue === undefined ? live?.donePerSecond : undefined;
  if (now !== undefined && now !== null) return perSecond(now);
  const whole = overview.buckets.at(-2);
  if (whole === undefined) return <Nothing says="unknown" />;
  return perSecond((whole.done * 1_000) / overview.stepMs);
}

/** Figures of the jobs that ended within the window. */
export function WindowFigures({
  overview: { ended, window, countedTo },
}: {
  readonly overview: Overview;
}): ReactNode {
  const during = window === 'hour' ? 'last hour' : 'last day';
  const figures: readonly Figure[] = [
    { label: 'Done', value: <Num value={ended.done} />, note: during },
    { label: 'Failed attempts', value: <Num value={ended.failures} />, note: during },
    { label: 'Died', value: <Num value={ended.dead} />, note: during },
    {
      label: 'Cancelled, expired',
      value: <Num value={ended.cancelled + ended.expired} />,
      note: during,
    },
    { label: 'Wait, median', value: <Span ms={ended.waits.p50Ms} />, note: tail(ended.waits) },
    { label: 'Run, median', value: <Span ms={ended.runs.p50Ms} />, note: tail(ended.runs) },
    {
      label: 'Worker time',
      value: <Span ms={ended.busyMs} />,
      note: countedTo === null ? 'not counted yet' : 'of last attempts',
    },
  ];
  return <Figures figures={figures} />;
}

function tail({ p95Ms, p99Ms }: Quantiles): string {
  if (p95Ms === null || p99Ms === null) return 'nothing ended';
  return `p95 ${span(p95Ms)}, p99 ${span(p99Ms)}`;
}
