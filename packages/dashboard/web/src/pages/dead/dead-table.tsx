import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { DeadRow, JobsAction } from '../../../../src/contract.ts';
import type { Action } from '../../api/actions.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Faint, JobId, Name, Nothing, Prose } from '../../ui/text.tsx';
import { Time } from '../../ui/time.tsx';
import { useJobsAction } from '../jobs/actions.tsx';

interface DeadTableProps {
  readonly rows: readonly DeadRow[];
  readonly operator: boolean;
}

export function DeadTable({ rows, operator }: DeadTableProps): ReactNode {
  const action = useJobsAction();
  return (
    <DataTable
      label="Dead jobs"
      columns={[...columns, ...(operator ? [redrive(action)] : [])]}
      rows={rows}
      rowKey={({ id }) => id}
    />
  );
}

const columns: readonly Column<DeadRow>[] = [
  { name: 'Job', leads: true, tight: true, cell: ({ id }) => <JobId id={id} /> },
  { name: 'Task', cell: ({ task }) => <Name text={task} max={60} /> },
  { name: 'Queue', minor: true, cell: ({ queue }) => <Name text={queue} max={60} /> },
  { name: 'Key', cell: ({ key }) => <Name text={key} max={60} /> },
  { name: 'Reason', tight: true, cell: ({ reason }) => <Faint>{reason.replaceAll('_', ' ')}</Faint> },
  {
    name: 'Tries',
    align: 'right',
    tight: true,
    cell: ({ tries, crashes }) => (crashes > 0 ? `${tries} +${crashes}` : tries),
  },
  { name: 'Died', tight: true, cell: ({ died }) => <Time at={died} as="ago" /> },
  {
    name: 'Node',
    minor: true,
    cell: ({ node }) => (node === null ? <Nothing /> : <Name text={node} max={40} />),
  },
  {
    name: 'Error',
    cell: ({ lastError }) =>
      lastError === null ? <Nothing /> : <Prose text={lastError.message} max={100} />,
  },
];

function redrive({ run, busy }: Action<JobsAction>): Column<DeadRow> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: ({ id }) => (
      <Button
        size="compact-xs"
        variant="default"
        disabled={busy}
        aria-label={`Redrive job ${id.slice(-12)}`}
        onClick={() => run({ ids: [id], action: { kind: 'retry' } })}
      >
        Redrive
      </Button>
    ),
  };
}
