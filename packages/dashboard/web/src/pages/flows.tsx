import { Button, Group, Select } from '@mantine/core';
import type { ReactNode } from 'react';
import type { FlowRow, FlowState } from '../../../src/contract.ts';
import { useFlows } from '../api/queries.ts';
import { exact } from '../format/numbers.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { IconX } from '../ui/icons.ts';
import { useFilters } from '../ui/lists/filters.tsx';
import { Pager } from '../ui/lists/pager.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { Num } from '../ui/numbers.tsx';
import { Name, Nothing, Prose, To } from '../ui/text.tsx';
import { Span, Time } from '../ui/time.tsx';
import { FlowMark } from './flow/state/flow-mark.tsx';
import { Progress } from './flow/state/progress.tsx';
import classes from './flow/flow.module.css';

const states: readonly FlowState[] = ['open', 'done', 'failed', 'cancelled'];

export function FlowsPage(): ReactNode {
  const { values, set, any } = useFilters(['state', 'name', 'key', 'after']);
  const { after, name, key } = values;
  const state = states.find((one) => one === values.state);
  const query = useFlows({
    ...(state !== undefined && { state }),
    ...(name !== undefined && { name }),
    ...(key !== undefined && { key }),
    ...(after !== undefined && { after }),
    limit: 50,
  });
  return (
    <Page title="Flows" note="Newest first. Flows that have ended are kept for seven days.">
      <Group gap="xs" role="search" aria-label="Filter flows">
        <Select
          data-filter
          w={140}
          aria-label="State"
          placeholder="Any state"
          data={[...states]}
          value={state ?? null}
          onChange={(chosen) => set({ state: chosen ?? undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Any state' }}
        />
        <TextFilter label="Name" value={name} onChange={(text) => set({ name: text })} />
        <TextFilter label="Key" value={key} onChange={(text) => set({ key: text })} />
        {any && (
          <Button
            variant="subtle"
            color="gray"
            leftSection={<IconX size={14} aria-hidden />}
            onClick={() => set({ state: undefined, name: undefined, key: undefined })}
          >
            Clear
          </Button>
        )}
      </Group>
      <Panel title="Flows" flush>
        <Answer query={query} rows={12}>
          {({ items, next, lookedBackTo }) => (
            <>
              {items.length === 0 ? (
                <Empty title={next === null ? 'No flow fits' : 'None so far'}>
                  {any ? 'Take a filter away to see more.' : 'Start one, and it is here.'}
                </Empty>
              ) : (
                <DataTable label="Flows" columns={columns} rows={items} rowKey={({ id }) => id} />
              )}
              <Pager
                after={after}
                next={next}
                lookedBackTo={lookedBackTo}
                onPage={(cursor) => set({ after: cursor })}
              />
            </>
          )}
        </Answer>
      </Panel>
    </Page>
  );
}

const columns: readonly Column<FlowRow>[] = [
  {
    name: 'Flow',
    leads: true,
    cell: ({ id, name }) => (
      <To to={`/flows/${encodeURIComponent(id)}`}>
        <Name text={name} max={80} />
      </To>
    ),
  },
  { name: 'State', tight: true, cell: (flow) => <FlowMark flow={flow} /> },
  {
    name: 'Key',
    cell: ({ key }) => (key === '' ? <Nothing /> : <Name text={key} max={60} />),
  },
  {
    name: 'Steps ended',
    align: 'right',
    tight: true,
    cell: ({ progress: { steps, stepsEnded } }) => `${exact(stepsEnded)} of ${exact(steps)}`,
  },
  { name: 'Jobs', cell: ({ progress }) => <Jobs progress={progress} /> },
  { name: 'Dead', align: 'right', tight: true, cell: ({ progress: { dead } }) => <Num value={dead} /> },
  { name: 'Created', tight: true, cell: ({ created }) => <Time at={created} as="ago" /> },
  { name: 'Took', align: 'right', tight: true, minor: true, cell: (flow) => <Took flow={flow} /> },
  {
    name: 'Reason',
    minor: true,
    cell: ({ reason }) => (reason === null ? <Nothing /> : <Prose text={reason} max={80} />),
  },
];

function Jobs({ progress }: Pick<FlowRow, 'progress'>): ReactNode {
  const { added, done } = progress;
  return (
    <span className={classes.progress}>
      <span>
        {exact(done)} of {exact(added)}
      </span>
      <Progress of={progress} />
    </span>
  );
}

function Took({ flow: { created, ended } }: { readonly flow: FlowRow }): ReactNode {
  if (ended === null) return <Nothing says="not yet" />;
  return <Span ms={Date.parse(ended) - Date.parse(created)} />;
}
