import { Button, Switch } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { QueueAction, QueueActionResult, QueueRow } from '../../../src/contract.ts';
import type { Action } from '../api/actions.tsx';
import { useAction } from '../api/actions.tsx';
import { useIsOperator, useQueues } from '../api/queries.ts';
import { perSecond, short } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { CountOf, sum } from '../ui/counts.tsx';
import { to, useFilters } from '../ui/lists/filters.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { HeldBy } from '../ui/held.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { Mark } from '../ui/status.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Faint, Name, Nothing, To } from '../ui/text.tsx';
import { Span, Time } from '../ui/time.tsx';
import { SettingsForm } from './queues/settings-form.tsx';

export function QueuesPage(): ReactNode {
  const { values, set, any } = useFilters(['name']);
  const query = useQueues(values);
  return (
    <Page
      title="Queues"
      note="Limits count from the scheduler’s next tick on, over all nodes."
      actions={<TextFilter label="Part of the name" value={values.name} onChange={(name) => set({ name })} />}
    >
      <Panel title="All queues" flush note={query.data?.more === true ? 'the first 500, by name' : undefined}>
        <Answer query={query}>
          {({ queues }) =>
            queues.length === 0 ? (
              <Empty title={any ? 'No queue has that in its name' : 'There is no queue yet'}>
                A queue begins with its first job, or its first setting.
              </Empty>
            ) : (
              <QueueTable queues={queues} />
            )
          }
        </Answer>
      </Panel>
    </Page>
  );
}

function QueueTable({ queues }: { readonly queues: readonly QueueRow[] }): ReactNode {
  const operator = useIsOperator();
  const [edited, setEdited] = useState<string>();
  const set = useAction<QueueAction, QueueActionResult>({
    path: 'actions/queue',
    tell: ({ undo }, { queue, settings }) => ({
      message: `Queue ${visible(queue)}: ${settings.paused === undefined ? 'settings changed' : settings.paused ? 'paused' : 'resumed'}`,
      undo,
    }),
    onDone: () => setEdited(undefined),
  });
  const columns = [
    ...shown,
    operator ? pauseSwitch(set) : pausedState,
    ...rest,
    ...(operator ? [edit(setEdited)] : []),
  ];
  return (
    <DataTable
      label="Queues"
      columns={columns}
      rows={queues}
      rowKey={({ queue }) => queue}
      marked={({ queue }) => queue === edited}
      below={(row) =>
        operator && row.queue === edited ? (
          <SettingsForm row={row} action={set} onClose={() => setEdited(undefined)} />
        ) : undefined
      }
    />
  );
}

const shown: readonly Column<QueueRow>[] = [
  {
    name: 'Queue',
    leads: true,
    cell: ({ queue }) => (
      <To to={to('/jobs', { queue })}>
        <Name text={queue} />
      </To>
    ),
  },
];

const pausedState: Column<QueueRow> = {
  name: 'State',
  tight: true,
  cell: ({ settings: { paused } }) => (
    <Mark tone={paused ? 'warn' : 'good'}>{paused ? 'paused' : 'open'}</Mark>
  ),
};

function pauseSwitch({ run, busy }: Action<QueueAction>): Column<QueueRow> {
  return {
    name: 'State',
    tight: true,
    cell: ({ queue, settings: { paused } }) => (
      <Switch
        checked={!paused}
        disabled={busy}
        label={paused ? 'paused' : 'open'}
        aria-label={`Queue ${visible(queue)} is ${paused ? 'paused' : 'open'}`}
        onChange={({ currentTarget }) => run({ queue, settings: { paused: !currentTarget.checked } })}
      />
    ),
  };
}

const rest: readonly Column<QueueRow>[] = [
  { name: 'Waiting', align: 'right', cell: ({ now }) => <CountOf of={sum(now.pending, now.ready)} /> },
  { name: 'Running', align: 'right', cell: ({ now }) => <CountOf of={now.running} /> },
  { name: 'Oldest', align: 'right', minor: true, cell: ({ now }) => <Span ms={now.oldestMs} /> },
  { name: 'Limits', cell: (row) => <Limits row={row} /> },
  { name: 'Weight', align: 'right', cell: ({ settings }) => short(settings.weight) },
  { name: 'Pool', minor: true, cell: ({ settings }) => <Name text={settings.pool} /> },
  { name: 'Kept', align: 'right', minor: true, cell: ({ settings }) => <Span ms={settings.retentionMs} /> },
  { name: 'Held by', cell: ({ held }) => <HeldBy held={held} /> },
  { name: 'Set', minor: true, cell: ({ updated }) => <Time at={updated} as="ago" /> },
];

function edit(onEdit: (queue: string | undefined) => void): Column<QueueRow> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: ({ queue }) => (
      <Button
        variant="default"
        size="compact-xs"
        onClick={() => onEdit(queue)}
        aria-label={`Edit queue ${visible(queue)}`}
      >
        Edit
      </Button>
    ),
  };
}

/** Shows the limits that are set, in short form. */
function Limits({ row: { settings } }: { readonly row: QueueRow }): ReactNode {
  const { concurrency, keyConcurrency, rate, keyRate, keyPending } = settings;
  const limits = [
    concurrency !== null && `${short(concurrency)} at once`,
    keyConcurrency !== null && `${short(keyConcurrency)} a key`,
    rate !== null && perSecond(rate.perSecond),
    keyRate !== null && `${perSecond(keyRate.perSecond)} a key`,
    keyPending !== null && `${short(keyPending)} waiting a key`,
  ].filter((limit) => limit !== false);
  return limits.length === 0 ? <Nothing /> : <Faint>{limits.join(' · ')}</Faint>;
}
