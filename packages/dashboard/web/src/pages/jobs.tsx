import type { ReactNode } from 'react';
import { useState } from 'react';
import type { JobFilter, JobsQuery, JobStatus } from '../../../src/contract.ts';
import { useIsOperator, useJobs } from '../api/queries.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Pager } from '../ui/lists/pager.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { BulkMenu } from './jobs/bulk-menu.tsx';
import { filterNames, JobFilters, statuses } from './jobs/job-filters.tsx';
import { JobTable } from './jobs/job-table.tsx';
import { SelectionBar } from './jobs/selection-bar.tsx';

type FilterName = (typeof filterNames)[number];

/**
 * Builds the server's filter from the address: drops unknown states, a field or value without the other, and a
 * step without its flow.
 */
function filterOf(values: { readonly [name in FilterName]?: string }): JobFilter {
  const { status, field, value, flow, step, ...rest } = values;
  const known = statuses.includes(status as JobStatus);
  return {
    ...rest,
    ...(known && { status: status as JobStatus }),
    ...(flow !== undefined && { flow, ...(step !== undefined && { step }) }),
    ...(field !== undefined && value !== undefined && { field, value }),
  };
}

export function JobsPage(): ReactNode {
  const { values, set, any } = useFilters([...filterNames, 'after']);
  const { after, ...filters } = values;
  const filter = filterOf(filters);
  const asked: JobsQuery = { ...filter, ...(after !== undefined && { after }), limit: 50 };
  const query = useJobs(asked);
  const operator = useIsOperator();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const clear = (): void => setSelected(new Set());
  const change: typeof set = (changes) => {
    clear();
    set(changes);
  };
  return (
    <Page title="Jobs" note="Newest first." actions={operator ? <BulkMenu filter={filter} /> : undefined}>
      <JobFilters values={filters} set={change} any={any} operator={operator} />
      <Panel
        title={selected.size > 0 ? `${selected.size} selected` : 'Jobs'}
        actions={
          operator && selected.size > 0 ? (
            <SelectionBar ids={[...selected]} status={filter.status} onDone={clear} />
          ) : undefined
        }
        flush
      >
        <Answer query={query} rows={14}>
          {({ items, next, lookedBackTo }) => (
            <>
              {items.length === 0 ? (
                <Empty title={next === null ? 'No job fits' : 'None so far'}>
                  {any ? 'Take a filter away to see more.' : 'Enqueue one, and it is here.'}
                </Empty>
              ) : (
                <JobTable rows={items} {...(operator && { selected, onSelect: setSelected })} />
              )}
              <Pager
                after={after}
                next={next}
                lookedBackTo={lookedBackTo}
                onPage={(cursor) => change({ after: cursor })}
              />
            </>
          )}
        </Answer>
      </Panel>
    </Page>
  );
}
