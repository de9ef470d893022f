import { SegmentedControl } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Overview, Window } from '../../../src/contract.ts';
import { useLive } from '../api/live.ts';
import { useOverview } from '../api/queries.ts';
import { Answer } from '../ui/frame/answer.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { Page } from '../ui/frame/page.tsx';
import { QueuePicker } from '../ui/lists/queue-picker.tsx';
import { Warnings } from '../ui/frame/warnings.tsx';
import { Charts } from './overview/charts.tsx';
import { NowFigures, WindowFigures } from './overview/figures.tsx';
import { QueueTable } from './overview/queue-table.tsx';
import classes from './overview/overview.module.css';

const windows: { value: Window; label: string }[] = [
  { value: 'hour', label: 'Last hour' },
  { value: 'day', label: 'Last day' },
];

export function OverviewPage(): ReactNode {
  const { values, set } = useFilters(['window', 'queue']);
  const window: Window = values.window === 'day' ? 'day' : 'hour';
  const query = useOverview({ window, ...(values.queue !== undefined && { queue: values.queue }) });
  return (
    <Page
      title="Overview"
      actions={
        <>
          <QueuePicker value={values.queue} onChange={(queue) => set({ queue })} />
          <SegmentedControl
            size="xs"
            value={window}
            data={windows}
            aria-label="Window"
            onChange={(value) => set({ window: value })}
          />
        </>
      }
    >
      <Answer query={query} rows={14}>
        {(overview) => <Content overview={overview} queue={values.queue} />}
      </Answer>
    </Page>
  );
}

interface ContentProps {
  readonly overview: Overview;
  readonly queue: string | undefined;
}

function Content({ overview, queue }: ContentProps): ReactNode {
  const live = useLive();
  // snapshots don't know how far ended jobs are counted
  const own = overview.warnings.filter(({ kind }) => kind === 'behind');
  return (
    <>
      <Warnings warnings={live === undefined ? overview.warnings : [...live.warnings, ...own]} />
      <NowFigures overview={overview} live={live} queue={queue} />
      <div className={classes.charts}>
        <Charts overview={overview} />
      </div>
      <WindowFigures overview={overview} />
      <QueueTable overview={overview} live={live} />
    </>
  );
}
