import { Checkbox } from '@mantine/core';
import type { ReactNode } from 'react';
import type { JobRow } from '../../../../src/contract.ts';
import { Status } from '../../ui/status.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Faint, JobId, Name, Nothing, Prose } from '../../ui/text.tsx';
import { Span, Time } from '../../ui/time.tsx';

interface JobTableProps {
  readonly rows: readonly JobRow[];
  readonly selected?: ReadonlySet<string>;
  readonly onSelect?: (ids: ReadonlySet<string>) => void;
}

export function JobTable({ rows, selected, onSelect }: JobTableProps): ReactNode {
  const boxes = selected !== undefined && onSelect !== undefined ? [box({ rows, selected, onSelect })] : [];
  return (
    <DataTable
      label="Jobs"
      columns={[...boxes, ...columns]}
      rows={rows}
      rowKey={({ id }) => id}
      marked={({ id }) => selected?.has(id) === true}
    />
  );
}

const columns: readonly Column<JobRow>[] = [
  { name: 'Job', leads: true, tight: true, cell: ({ id }) => <JobId id={id} /> },
  { name: 'State', tight: true, cell: ({ status }) => <Status of={status} /> },
  { name: 'Task', cell: ({ task }) => <Name text={task} max={60} /> },
  { name: 'Queue', cell: ({ queue }) => <Name text={queue} max={60} /> },
  { name: 'Key', cell: ({ key }) => <Name text={key} max={60} /> },
  { name: 'Tries', align: 'right', tight: true, cell: (row) => <Tries row={row} /> },
  { name: 'Priority', align: 'right', tight: true, minor: 'very', cell: ({ priority }) => priority },
  { name: 'Created', tight: true, cell: ({ created }) => <Time at={created} as="ago" /> },
  { name: 'Ran', align: 'right', tight: true, cell: (row) => <Ran row={row} /> },
  {
    name: 'Node',
    minor: true,
    cell: ({ node }) => (node === null ? <Nothing /> : <Name text={node} max={40} />),
  },
  {
    name: 'Last error',
    minor: true,
    cell: ({ lastError }) => (lastError === null ? <Nothing /> : <Prose text={lastError} max={80} />),
  },
];

function Tries({ row: { tries, maxTries, crashes } }: { readonly row: JobRow }): ReactNode {
  return (
    <span title={crashes > 0 ? `and ${crashes} crashes` : undefined}>
      {tries}
      {maxTries !== null && ` / ${maxTries}`}
      {crashes > 0 && ` +${crashes}`}
    </span>
  );
}

/** Shows the duration of the last attempt, the start of the running one, or the due time of a delayed job. */
function Ran({ row: { status, started, finished, runAfter } }: { readonly row: JobRow }): ReactNode {
  if (status === 'delayed') return <When word="due" at={runAfter} />;
  if (started === null) return <Nothing says="not yet" />;
  if (finished === null) return <When word="began" at={started} />;
  return <Span ms={Date.parse(finished) - Date.parse(started)} />;
}

function When({ word, at }: { readonly word: string; readonly at: string | null }): ReactNode {
  return (
    <>
      <Faint>{word}</Faint> <Time at={at} as="ago" />
    </>
  );
}

/** A column of checkboxes, with one in the heading for all jobs of the page. */
function box({ rows, selected, onSelect }: Required<JobTableProps>): Column<JobRow> {
  const some = rows.some(({ id }) => selected.has(id));
  const all = rows.every(({ id }) => selected.has(id));
  return {
    name: 'Select',
    silent: true,
    tight: true,
    head: (
      <Checkbox
        size="xs"
        aria-label="Select all jobs of this page"
        checked={all}
        indeterminate={some && !all}
        onChange={() => onSelect(new Set(all ? [] : rows.map(({ id }) => id)))}
      />
    ),
    cell: ({ id }) => (
      <Checkbox
        size="xs"
        aria-label={`Select job ${id.slice(-12)}`}
        checked={selected.has(id)}
        onChange={() => {
          const next = new Set(selected);
          if (!next.delete(id)) next.add(id);
          onSelect(next);
        }}
      />
    ),
  };
}
