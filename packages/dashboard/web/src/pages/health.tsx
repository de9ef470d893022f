import type { ReactNode } from 'react';
import type { Health, TableHealth } from '../../../src/contract.ts';
import { useHealth } from '../api/queries.ts';
import { bytes, counted, percent } from '../format/numbers.ts';
import { span } from '../format/times.ts';
import { Answer } from '../ui/frame/answer.tsx';
import { CountOf } from '../ui/counts.tsx';
import { Num } from '../ui/numbers.tsx';
import { Page } from '../ui/frame/page.tsx';
import type { Figure } from '../ui/frame/panel.tsx';
import { Figures, Panel } from '../ui/frame/panel.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Faint, Foreign, Name, Nothing } from '../ui/text.tsx';
import { Time } from '../ui/time.tsx';
import { Warnings } from '../ui/frame/warnings.tsx';
import { DoctorPanel } from './health/doctor.tsx';

export function HealthPage(): ReactNode {
  const query = useHealth();
  return (
    <Page title="Health">
      <Answer query={query} rows={12}>
        {(health) => (
          <>
            <Warnings warnings={health.warnings} />
            <Figures figures={figuresOf(health)} />
            <Panel title="Tables" note="as PostgreSQL’s statistics have them" flush>
              <DataTable label="Tables" columns={tables} rows={health.tables} rowKey={({ table }) => table} />
            </Panel>
            <DoctorPanel />
            <Migrations health={health} />
          </>
        )}
      </Answer>
    </Page>
  );
}

const oldSnapshotMs = 600_000;

function figuresOf({
  server,
  leader,
  oldestSnapshot,
  connections,
  migrations,
  history,
}: Health): readonly Figure[] {
  const age = oldestSnapshot?.ageMs ?? null;
  return [
    {
      label: 'Leader',
      value: leader.name === null ? 'nobody' : <Name text={leader.name} max={24} />,
      note: `epoch ${leader.epoch}${leader.expiresInMs === null ? '' : `, lease for ${span(leader.expiresInMs)}`}`,
      tone: leader.name === null ? 'bad' : undefined,
    },
    {
      label: 'Oldest snapshot',
      value: oldestSnapshot === null ? <Nothing says="none" /> : age === null ? 'age hidden' : span(age),
      note:
        oldestSnapshot === null ? (
          'holds vacuum back'
        ) : (
          <>
            <Foreign text={oldestSnapshot.application || 'a session'} max={30} />, pid {oldestSnapshot.pid}
            {age === null && '; the role needs pg_read_all_stats'}
          </>
        ),
      tone: age !== null && age > oldSnapshotMs ? 'bad' : undefined,
    },
    {
      label: 'Connections',
      value: <Num value={connections.used} />,
      note: `of ${connections.max}`,
      tone: connections.used > connections.max * 0.9 ? 'warn' : undefined,
    },
    {
      label: 'Schema version',
      value: migrations.version,
      note: `needs ${migrations.needs}, knows ${migrations.knows}`,
    },
    {
      label: 'History',
      value: counted(history.days, 'day'),
      note:
        history.oldest === null ? (
          'nothing kept'
        ) : (
          <>
            since <Time at={history.oldest} as="day" />
          </>
        ),
    },
    {
      label: 'Outside partitions',
      value: <CountOf of={history.inDefault} />,
      note: 'rows of history',
      tone: history.inDefault.count > 0 ? 'warn' : undefined,
    },
    { label: 'PostgreSQL', value: <Name text={server} max={12} />, note: 'server' },
  ];
}

const tables: readonly Column<TableHealth>[] = [
  { name: 'Table', leads: true, cell: ({ table }) => <Name text={table} max={60} /> },
  { name: 'Rows', align: 'right', cell: ({ liveRows }) => <Num value={Number(liveRows)} /> },
  { name: 'Dead rows', align: 'right', cell: ({ deadRows }) => <Num value={Number(deadRows)} /> },
  {
    name: 'Dead share',
    align: 'right',
    cell: ({ deadShare }) => (deadShare === null ? <Nothing /> : percent(deadShare)),
  },
  { name: 'Size', align: 'right', cell: (row) => bytes(Number(row.bytes)) },
  { name: 'Indexes', align: 'right', minor: true, cell: ({ indexBytes }) => bytes(Number(indexBytes)) },
  { name: 'Vacuumed', cell: ({ lastVacuum }) => <Time at={lastVacuum} as="ago" /> },
  { name: 'Analyzed', minor: true, cell: ({ lastAnalyze }) => <Time at={lastAnalyze} as="ago" /> },
];

function Migrations({ health: { migrations } }: { readonly health: Health }): ReactNode {
  return (
    <Panel title="Migrations" note="newest first" flush>
      <DataTable
        label="Migrations"
        rows={migrations.applied}
        rowKey={({ version }) => String(version)}
        columns={[
          { name: 'Version', leads: true, tight: true, cell: ({ version }) => version },
          { name: 'Name', cell: ({ name }) => <Name text={name} whole /> },
          {
            name: 'Applied',
            align: 'right',
            cell: ({ applied }) =>
              applied === null ? <Faint>still to be applied</Faint> : <Time at={applied} />,
          },
        ]}
      />
    </Panel>
  );
}
