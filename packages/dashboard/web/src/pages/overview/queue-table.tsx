import type { ReactNode } from 'react';
import type { LiveSnapshot, Overview, QueueOverview } from '../../../../src/contract.ts';
import { short } from '../../format/numbers.ts';
import { Empty } from '../../ui/frame/answer.tsx';
import { CountOf, sum } from '../../ui/counts.tsx';
import { to } from '../../ui/lists/filters.tsx';
import { HeldBy, heldOf } from '../../ui/held.tsx';
import { Num } from '../../ui/numbers.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { Mark } from '../../ui/status.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Name, To } from '../../ui/text.tsx';
import { Span } from '../../ui/time.tsx';

const columns: readonly Column<QueueOverview>[] = [
  {
    name: 'Queue',
    leads: true,
    cell: ({ queue, paused }) => (
      <>
        <To to={to('/jobs', { queue })}>
          <Name text={queue} />
        </To>
        {paused && (
          <>
            {' '}
            <Mark tone="warn">paused</Mark>
          </>
        )}
      </>
    ),
  },
  { name: 'Waiting', align: 'right', cell: ({ now }) => <CountOf of={sum(now.pending, now.ready)} /> },
  { name: 'Delayed', align: 'right', minor: true, cell: ({ now }) => <CountOf of={now.delayed} /> },
  { name: 'Running', align: 'right', cell: ({ now }) => <CountOf of={now.running} /> },
  { name: 'Oldest', align: 'right', cell: ({ now }) => <Span ms={now.oldestMs} /> },
  { name: 'Claim age', align: 'right', minor: true, cell: ({ now }) => <Span ms={now.claimAgeMs} /> },
  { name: 'Done', align: 'right', cell: ({ ended }) => <Num value={ended.done} /> },
  { name: 'Failed', align: 'right', minor: true, cell: ({ ended }) => <Num value={ended.failures} /> },
  { name: 'Wait p95', align: 'right', cell: ({ ended }) => <Span ms={ended.waits.p95Ms} /> },
  { name: 'Dead', align: 'right', cell: ({ now }) => <CountOf of={now.dead} /> },
  { name: 'Held by', title: `jobs held, ${heldOf}`, cell: ({ held }) => <HeldBy held={held} /> },
];

interface QueueTableProps {
  readonly overview: Overview;
  readonly live: LiveSnapshot | undefined;
}

/** Lists the queues, with their present depths from the newest snapshot. */
export function QueueTable({ overview, live }: QueueTableProps): ReactNode {
  const present = new Map(live?.queues.map((queue) => [queue.queue, queue]));
  const rows = overview.queues.map((row) => {
    const now = present.get(row.queue);
    return now === undefined ? row : { ...row, now, paused: now.paused };
  });
  const { length } = overview.queues;
  return (
    <Panel
      title="Queues"
      note={`${overview.moreQueues ? `the busiest ${short(length)}; ` : ''}held: ${heldOf}`}
      flush
    >
      {rows.length === 0 ? (
        <Empty title="No queue has ever had a job">Enqueue one, and it is here.</Empty>
      ) : (
        <DataTable label="Queues" columns={columns} rows={rows} rowKey={({ queue }) => queue} />
      )}
    </Panel>
  );
}
