import { Anchor } from '@mantine/core';
import type { ReactNode } from 'react';
import type { InstallationNow, InstallationRow, Installations } from '../../../src/contract.ts';
import { hrefOf } from '../api/mount.ts';
import { useInstallations } from '../api/queries.ts';
import { counted, upToTenths } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { Meter } from '../ui/charts/meter.tsx';
import { CountOf, sum } from '../ui/counts.tsx';
import { Answer } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import type { Figure } from '../ui/frame/panel.tsx';
import { Figures, Panel } from '../ui/frame/panel.tsx';
import { Warnings } from '../ui/frame/warnings.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Mark, Status } from '../ui/status.tsx';
import { Faint, Name, Nothing } from '../ui/text.tsx';
import { Span } from '../ui/time.tsx';
import { Find } from './find.tsx';

/** All installations: their sums, and a row each. */
export function InstallationsPage(): ReactNode {
  const query = useInstallations();
  return (
    <Page title="Installations" note="Each has its own pages: open it by its name." actions={<Find />}>
      <Answer query={query} rows={8}>
        {(all) => (
          <>
            <Totals all={all} />
            <Panel title="All installations" note="by number" flush>
              <DataTable
                label="Installations"
                columns={columns}
                rows={all.installations}
                rowKey={({ installation }) => installation}
                below={Details}
              />
            </Panel>
          </>
        )}
      </Answer>
    </Page>
  );
}

function Totals({ all: { installations, totals } }: { readonly all: Installations }): ReactNode {
  const { answered, depths, workers, donePerSecond, warnings } = totals;
  const figures: readonly Figure[] = [
    {
      label: 'Answer',
      value: `${answered} of ${installations.length}`,
      note: answered < installations.length ? 'the sums are of these' : 'installations',
      tone: answered < installations.length ? 'bad' : undefined,
    },
    {
      label: 'Waiting',
      value: <CountOf of={sum(depths.pending, depths.ready)} />,
      note: (
        <>
          and <CountOf of={depths.delayed} /> delayed
        </>
      ),
    },
    { label: 'Oldest waiting', value: <Span ms={depths.oldestMs} />, note: 'due, not running' },
    { label: 'Running', value: <CountOf of={depths.running} />, note: counted(workers.nodes, 'node') },
    {
      label: 'Slots in use',
      value: `${workers.slotsInUse} of ${workers.slots}`,
      note: 'a worker of several counts in each',
    },
    { label: 'Done a minute', value: perMinute(donePerSecond), note: 'last 5 min' },
    {
      label: 'Dead',
      value: <CountOf of={depths.dead} />,
      note: 'dead letters',
      tone: depths.dead.count > 0 ? 'bad' : undefined,
    },
    {
      label: 'Problems',
      value: warnings,
      note: 'below each',
      tone: warnings > 0 ? 'warn' : undefined,
    },
  ];
  return <Figures figures={figures} />;
}

function perMinute(perSecond: number): string {
  return upToTenths(perSecond * 60);
}

/** Column of a number that an installation which does not answer lacks. */
function known(
  name: string,
  cell: (now: InstallationNow) => ReactNode,
  more: Partial<Column<InstallationRow>> = { align: 'right' },
): Column<InstallationRow> {
  return { name, ...more, cell: ({ now }) => (now === null ? <Nothing says="unknown" /> : cell(now)) };
}

const columns: readonly Column<InstallationRow>[] = [
  {
    name: 'Installation',
    leads: true,
    cell: ({ installation }) => (
      <Anchor href={hrefOf(installation)}>
        <Name text={installation} max={63} />
      </Anchor>
    ),
  },
  { name: 'Number', align: 'right', minor: true, cell: ({ number }) => number },
  { name: 'State', tight: true, cell: ({ state, now }) => <Status of={now === null ? 'down' : state} /> },
  known(
    'Leader',
    ({ leader }) => (leader === null ? <Mark tone="warn">none</Mark> : <Name text={leader} max={40} />),
    {},
  ),
  known('Waiting', ({ depths }) => <CountOf of={sum(depths.pending, depths.ready)} />),
  known('Oldest', ({ depths }) => <Span ms={depths.oldestMs} />),
  known('Running', ({ depths }) => <CountOf of={depths.running} />),
  known('Slots in use', ({ workers }) => <Meter value={workers.slotsInUse} max={workers.slots} />, {}),
  known('Done/min', ({ donePerSecond }) => perMinute(donePerSecond)),
  known('Dead', ({ depths }) => <CountOf of={depths.dead} />, { align: 'right', minor: true }),
  known('Problems', ({ warnings }) =>
    warnings.length === 0 ? <Faint>0</Faint> : <Mark tone="warn">{warnings.length}</Mark>,
  ),
];

/** Shows why an installation does not answer, or what keeps its jobs from running. */
function Details({ now, error }: InstallationRow): ReactNode {
  if (error !== null)
    return (
      <p>
        <Mark tone="bad">No answer:</Mark> {visible(error)}
      </p>
    );
  if (now === null || now.warnings.length === 0) return undefined;
  return <Warnings warnings={now.warnings} />;
}
