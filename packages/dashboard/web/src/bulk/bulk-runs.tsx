import { Button, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { BulkRun } from '../../../src/contract.ts';
import { useBulkRuns } from '../api/bulk.ts';
import { exact } from '../format/numbers.ts';
import { countText } from '../ui/counts.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import type { Tone } from '../ui/status.tsx';
import { Mark } from '../ui/status.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Foreign } from '../ui/text.tsx';
import { Time } from '../ui/time.tsx';
import { BulkProgress } from './bulk-progress.tsx';

/**
 * Lists bulk actions, so that their progress, stop and undo remain reachable after the dialog is closed.
 * Renders nothing if there are none.
 */
export function BulkRuns(): ReactNode {
  const { data } = useBulkRuns();
  const [shown, show] = useState<string>();
  if (data === undefined || data.runs.length === 0) return null;
  return (
    <Panel title="In bulk" note="since this process of the dashboard began, the newest first" flush>
      <DataTable
        label="Bulk actions"
        columns={[...columns, showButton(show)]}
        rows={data.runs}
        rowKey={({ id }) => id}
      />
      <Modal opened={shown !== undefined} onClose={() => show(undefined)} title="Bulk action" size="lg">
        {shown !== undefined && <BulkProgress id={shown} onClose={() => show(undefined)} />}
      </Modal>
    </Panel>
  );
}

function nameOf({ over, action }: BulkRun['request']): string {
  const verb = action.kind.replaceAll('_', ' ');
  return `${verb} ${over === 'dead' ? 'dead letters' : 'jobs'}`;
}

const tones: Readonly<Record<BulkRun['state'], Tone>> = {
  running: 'accent',
  done: 'good',
  stopped: 'warn',
  failed: 'bad',
};

const columns: readonly Column<BulkRun>[] = [
  { name: 'Action', leads: true, tight: true, cell: ({ request }) => nameOf(request) },
  { name: 'Begun', tight: true, cell: ({ begun }) => <Time at={begun} /> },
  { name: 'Who', cell: ({ actor }) => <Foreign text={actor} max={60} /> },
  {
    name: 'State',
    tight: true,
    cell: ({ state }) => <Mark tone={tones[state]}>{state === 'running' ? 'under way' : state}</Mark>,
  },
  {
    name: 'Looked at',
    align: 'right',
    cell: ({ seen, total }) => `${exact(seen)} of ${countText(total, exact)}`,
  },
  { name: 'Changed', align: 'right', cell: ({ done }) => exact(done) },
];

function showButton(show: (id: string) => void): Column<BulkRun> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: ({ id, request }) => (
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => show(id)}
        aria-label={`Show bulk action: ${nameOf(request)}`}
      >
        Show
      </Button>
    ),
  };
}
