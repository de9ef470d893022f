import { SegmentedControl } from '@mantine/core';
import type { ReactNode } from 'react';
import type { KeyRow, Keys, ShareWindow } from '../../../src/contract.ts';
import { useKeys } from '../api/queries.ts';
import { counted, exact, percent, short } from '../format/numbers.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { CountOf } from '../ui/counts.tsx';
import { to, useFilters } from '../ui/lists/filters.tsx';
import { Num } from '../ui/numbers.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Pager } from '../ui/lists/pager.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { QueuePicker } from '../ui/lists/queue-picker.tsx';
import { ShareBar } from '../ui/charts/share-bar.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Name, Nothing, To } from '../ui/text.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { Span, Time } from '../ui/time.tsx';

const windows: { value: ShareWindow; label: string }[] = [
  { value: 'minutes', label: 'Last 5 minutes' },
  { value: 'hour', label: 'Last hour' },
];

export function KeysPage(): ReactNode {
  const { values, set } = useFilters(['window', 'queue', 'key', 'after']);
  const window: ShareWindow = values.window === 'minutes' ? 'minutes' : 'hour';
  const query = useKeys({ ...values, window, limit: 50 });
  return (
    <Page
      title="Keys"
      note="Who waits, who runs, and who gets which share of the workers’ time."
      actions={
        <>
          <TextFilter label="Key, its whole name" value={values.key} onChange={(key) => set({ key })} />
          <QueuePicker value={values.queue} onChange={(queue) => set({ queue })} />
          <SegmentedControl
            size="xs"
            value={window}
            data={windows}
            aria-label="Window of the shares"
            onChange={(value) => set({ window: value })}
          />
        </>
      }
    >
      <Answer query={query} rows={12}>
        {(keys) => (
          <>
            {values.after === undefined && <Active keys={keys} />}
            <Waiting keys={keys} after={values.after} onPage={(after) => set({ after })} />
          </>
        )}
      </Answer>
    </Page>
  );
}

const rowKey = ({ queue, key }: KeyRow): string => JSON.stringify([queue, key]);

const key: Column<KeyRow> = {
  name: 'Key',
  leads: true,
  cell: (row) => (
    <To to={to('/jobs', { queue: row.queue, key: row.key })}>
      <Name text={row.key} />
    </To>
  ),
};

const queue: Column<KeyRow> = { name: 'Queue', cell: ({ queue }) => <Name text={queue} /> };

function fairShareOf({ fairShare }: KeyRow): ReactNode {
  return fairShare === null ? <Nothing says="too many keys wait" /> : percent(fairShare);
}

const lines: readonly Column<KeyRow>[] = [
  { name: 'Waiting', align: 'right', cell: ({ waiting }) => <CountOf of={waiting} /> },
  { name: 'Oldest', align: 'right', minor: true, cell: ({ oldestMs }) => <Span ms={oldestMs} /> },
  { name: 'Running', align: 'right', cell: ({ running }) => <Num value={running} /> },
];

function activeColumns(scale: number): readonly Column<KeyRow>[] {
  return [
    key,
    queue,
    {
      name: 'Share of worker time',
      cell: ({ share, fairShare }) => <ShareBar share={share} fair={fairShare} scale={scale} />,
    },
    { name: 'Fair share', align: 'right', cell: fairShareOf },
    ...lines,
    { name: 'Worker time', align: 'right', minor: true, cell: ({ busyMs }) => <Span ms={busyMs} /> },
    { name: 'Ended', align: 'right', cell: ({ done }) => <Num value={done} /> },
  ];
}

function Active({ keys: { active, seen, countedUpTo } }: { readonly keys: Keys }): ReactNode {
  const scale = Math.max(0, ...active.map(({ share, fairShare }) => Math.max(share, fairShare ?? 0)));
  return (
    <Panel
      title="Who runs"
      note={
        <>
          {counted(seen.jobs, 'job')} that ended since <Time at={seen.from} />, and what runs. The mark on a
          bar is the fair share, told while no more than 500 keys wait. Waiting jobs are counted up to{' '}
          {exact(countedUpTo)} a key.
        </>
      }
      flush
    >
      {active.length === 0 ? (
        <Empty title="Nothing runs, and nothing ran lately" />
      ) : (
        <DataTable
          label="Keys that run or ran"
          columns={activeColumns(scale)}
          rows={active}
          rowKey={rowKey}
        />
      )}
    </Panel>
  );
}

const waitingColumns: readonly Column<KeyRow>[] = [
  key,
  queue,
  { name: 'Waiting', align: 'right', cell: ({ waiting }) => <CountOf of={waiting} /> },
  { name: 'Oldest', align: 'right', cell: ({ oldestMs }) => <Span ms={oldestMs} /> },
  { name: 'Running', align: 'right', cell: ({ running }) => <Num value={running} /> },
  { name: 'Weight of queue', align: 'right', minor: true, cell: ({ weight }) => short(weight) },
  { name: 'Fair share', align: 'right', cell: fairShareOf },
];

interface WaitingProps {
  readonly keys: Keys;
  readonly after: string | undefined;
  readonly onPage: (after: string | undefined) => void;
}

function Waiting({ keys: { waiting, next, countedUpTo }, after, onPage }: WaitingProps): ReactNode {
  return (
    <Panel
      title="Who waits"
      note={`due jobs, counted up to ${exact(countedUpTo)} a key, by queue and key`}
      flush
    >
      {waiting.length === 0 && next !== null ? (
        <Empty title="None on this page">Look on the next one.</Empty>
      ) : waiting.length === 0 ? (
        <Empty title="No key waits">Every job that is due has been handed out.</Empty>
      ) : (
        <DataTable label="Keys that wait" columns={waitingColumns} rows={waiting} rowKey={rowKey} />
      )}
      <Pager after={after} next={next} onPage={onPage} />
    </Panel>
  );
}
