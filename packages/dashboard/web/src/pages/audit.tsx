import { Group } from '@mantine/core';
import type { ReactNode } from 'react';
import type { AuditRow } from '../../../src/contract.ts';
import { useAudit } from '../api/queries.ts';
import { BulkRuns } from '../bulk/bulk-runs.tsx';
import { pretty } from '../format/text.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Pager } from '../ui/lists/pager.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Faint, Foreign, Name, Nothing, Prose } from '../ui/text.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { Time } from '../ui/time.tsx';

export function AuditPage(): ReactNode {
  const { values, set, any } = useFilters(['actor', 'action', 'after']);
  const query = useAudit({ ...values, limit: 50 });
  return (
    <Page title="Audit" note="Who did what, and when.">
      <BulkRuns />
      <Group gap="xs" role="search" aria-label="Filter the audit">
        <TextFilter label="Who" value={values.actor} onChange={(actor) => set({ actor })} />
        <TextFilter
          label="Action, such as queue.set"
          width={220}
          value={values.action}
          onChange={(action) => set({ action })}
        />
      </Group>
      <Panel title="Actions" flush>
        <Answer query={query}>
          {({ items, next }) => (
            <>
              {items.length === 0 ? (
                <Empty title={any ? 'No action fits' : 'Nobody has done anything yet'} />
              ) : (
                <DataTable label="Actions" columns={columns} rows={items} rowKey={({ n }) => n} />
              )}
              <Pager after={values.after} next={next} onPage={(after) => set({ after })} />
            </>
          )}
        </Answer>
      </Panel>
    </Page>
  );
}

function Json({ value }: { readonly value: unknown }): ReactNode {
  if (value === null) return <Nothing />;
  return <Prose text={pretty(value, 2_000).replaceAll(/\s+/g, ' ')} max={140} />;
}

const columns: readonly Column<AuditRow>[] = [
  { name: 'Action', leads: true, tight: true, cell: ({ action }) => <Name text={action} max={60} /> },
  { name: 'When', tight: true, cell: ({ at }) => <Time at={at} /> },
  { name: 'Who', cell: ({ actor }) => <Foreign text={actor} max={60} /> },
  {
    name: 'By way of',
    minor: true,
    cell: ({ via, databaseUser }) => (
      <Faint>
        <Foreign text={via} max={30} /> as <Foreign text={databaseUser} max={40} />
      </Faint>
    ),
  },
  {
    name: 'Of',
    cell: ({ target }) => (target === null ? <Nothing says="several" /> : <Name text={target} max={60} />),
  },
  { name: 'What', cell: ({ details }) => <Json value={details} /> },
  { name: 'Result', minor: true, cell: ({ result }) => <Json value={result} /> },
];
