import type { ReactNode } from 'react';
import type { DeadGroup } from '../../../../src/contract.ts';
import { clipped, visible } from '../../format/text.ts';
import { Num } from '../../ui/numbers.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Faint, Foreign, JobId, LinkButton, Name, Prose } from '../../ui/text.tsx';
import { Time } from '../../ui/time.tsx';
import type { DeadAsk } from './dead-bulk.tsx';
import { DeadButtons } from './dead-bulk.tsx';

interface GroupTableProps {
  readonly groups: readonly DeadGroup[];
  readonly chosen: string | undefined;
  readonly onChoose: (group: string | undefined) => void;
  /** Undefined: the user is no operator. */
  readonly onAsk: ((ask: DeadAsk) => void) | undefined;
}

export function GroupTable({ groups, chosen, onChoose, onAsk }: GroupTableProps): ReactNode {
  const columns = [error(chosen, onChoose), ...rest, ...(onAsk === undefined ? [] : [actions(onAsk)])];
  return (
    <DataTable
      label="Groups of dead jobs"
      columns={columns}
      rows={groups}
      rowKey={({ group }) => group}
      marked={({ group }) => group === chosen}
    />
  );
}

function error(chosen: string | undefined, onChoose: GroupTableProps['onChoose']): Column<DeadGroup> {
  return {
    name: 'Error',
    leads: true,
    cell: ({ group, name, message, reason }) => (
      <LinkButton pressed={group === chosen} onClick={() => onChoose(group === chosen ? undefined : group)}>
        <span data-prose>
          {name !== null && <b>{visible(clipped(name, 80))}: </b>}
          <Foreign text={message === '' ? reason.replaceAll('_', ' ') : message} />
        </span>
      </LinkButton>
    ),
  };
}

const rest: readonly Column<DeadGroup>[] = [
  { name: 'Jobs', align: 'right', tight: true, cell: ({ jobs }) => <Num value={jobs} /> },
  { name: 'Task', cell: ({ task }) => <Name text={task} max={60} /> },
  { name: 'Queue', minor: true, cell: ({ queue }) => <Name text={queue} max={60} /> },
  { name: 'Reason', tight: true, cell: ({ reason }) => <Faint>{reason.replaceAll('_', ' ')}</Faint> },
  {
    name: 'Keys',
    minor: 'very',
    cell: ({ keys }) => (
      <Prose text={keys.map((key) => (key === '' ? '(empty)' : key)).join(', ')} max={60} />
    ),
  },
  { name: 'Last', tight: true, cell: ({ last }) => <Time at={last} as="ago" /> },
  { name: 'First', tight: true, minor: 'very', cell: ({ first }) => <Time at={first} as="ago" /> },
  { name: 'Sample', tight: true, minor: 'very', cell: ({ sample }) => <JobId id={sample.id} /> },
];

function actions(onAsk: (ask: DeadAsk) => void): Column<DeadGroup> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: ({ group, task, queue }) => <DeadButtons filter={{ group, task, queue }} onAsk={onAsk} />,
  };
}
