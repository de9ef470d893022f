import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import type { ScheduleAction, ScheduleActionResult, ScheduleRow } from '../../../src/contract.ts';
import type { Action } from '../api/actions.tsx';
import { useAction } from '../api/actions.tsx';
import { useIsOperator, useSchedules, useSession } from '../api/queries.ts';
import { pretty, visible } from '../format/text.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { Mark } from '../ui/status.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { Faint, Foreign, Name, Nothing } from '../ui/text.tsx';
import { Time } from '../ui/time.tsx';
import classes from './schedules.module.css';

export function SchedulesPage(): ReactNode {
  const { values, set, any } = useFilters(['name']);
  const query = useSchedules(values);
  return (
    <Page
      title="Schedules"
      note="Each slot is enqueued once, whoever leads."
      actions={<TextFilter label="Part of the name" value={values.name} onChange={(name) => set({ name })} />}
    >
      <Panel
        title="All schedules"
        note={query.data?.more === true ? 'the first 500, by name' : undefined}
        flush
      >
        <Answer query={query}>
          {({ schedules }) =>
            schedules.length === 0 ? (
              <Empty title={any ? 'No schedule has that in its name' : 'There is no schedule'}>
                A scheduler brings its own, or they are set by “pgqueue schedules”.
              </Empty>
            ) : (
              <ScheduleTable schedules={schedules} />
            )
          }
        </Answer>
      </Panel>
    </Page>
  );
}

const did = { run_now: 'enqueued now', pause: 'paused', resume: 'resumed' } as const;

function ScheduleTable({ schedules }: { readonly schedules: readonly ScheduleRow[] }): ReactNode {
  const operator = useIsOperator();
  const sees = useSession().data?.seesPayloads === true;
  const action = useAction<ScheduleAction, ScheduleActionResult>({
    path: 'actions/schedule',
    tell: ({ undo }, { name, action: kind }) => ({
      message: `Schedule ${visible(name)}: ${did[kind]}`,
      undo,
    }),
  });
  return (
    <DataTable
      label="Schedules"
      columns={[...columns, ...(sees ? [payload] : []), ...(operator ? [actions(action)] : [])]}
      rows={schedules}
      rowKey={({ name }) => name}
    />
  );
}

const columns: readonly Column<ScheduleRow>[] = [
  { name: 'Schedule', leads: true, cell: ({ name }) => <Name text={name} max={80} /> },
  {
    name: 'State',
    tight: true,
    cell: ({ paused, problem }) =>
      problem === null ? (
        <Mark tone={paused ? 'warn' : 'good'}>{paused ? 'paused' : 'on'}</Mark>
      ) : (
        <Mark tone="bad">
          <Foreign text={problem} max={80} />
        </Mark>
      ),
  },
  {
    name: 'Expression',
    cell: ({ cron, timezone }) => (
      <>
        <Name text={cron} max={80} /> <Faint>{visible(timezone)}</Faint>
      </>
    ),
  },
  { name: 'Task', cell: ({ task }) => <Name text={task} max={60} /> },
  {
    name: 'Next',
    tight: true,
    cell: ({ next, paused }) => (paused ? <Nothing says="paused" /> : <Time at={next} as="ago" />),
  },
  { name: 'After that', minor: true, cell: ({ upcoming, next }) => <Upcoming at={upcoming} next={next} /> },
  { name: 'Last', tight: true, cell: ({ last }) => <Time at={last} as="ago" /> },
];

const laterMax = 3;

function Upcoming({ at, next }: { readonly at: readonly string[]; readonly next: string | null }): ReactNode {
  const later = at.filter((slot) => slot !== next).slice(0, laterMax);
  if (later.length === 0) return <Nothing />;
  return (
    <span className={classes.later}>
      {later.map((slot) => (
        <Time key={slot} at={slot} />
      ))}
    </span>
  );
}

const payload: Column<ScheduleRow> = {
  name: 'Payload',
  minor: true,
  cell: (row) => <Name text={pretty(row.payload, 300).replaceAll(/\s+/g, ' ')} max={80} />,
};

function actions({ run, busy }: Action<ScheduleAction>): Column<ScheduleRow> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: ({ name, paused }) => {
      const turn = paused ? 'resume' : 'pause';
      return (
        <Group gap={6} wrap="nowrap">
          <Button
            size="compact-xs"
            variant="default"
            disabled={busy}
            onClick={() => run({ name, action: 'run_now' })}
            aria-label={`Run now: schedule ${visible(name)}`}
          >
            Run now
          </Button>
          <Button
            size="compact-xs"
            variant="default"
            disabled={busy}
            onClick={() => run({ name, action: turn })}
            aria-label={`${paused ? 'Resume' : 'Pause'} schedule ${visible(name)}`}
          >
            {paused ? 'Resume' : 'Pause'}
          </Button>
        </Group>
      );
    },
  };
}
