import type { ReactNode } from 'react';
import { useState } from 'react';
import type { FlowResult } from '../../../../src/contract.ts';
import { useFlowResults } from '../../api/queries.ts';
import { visible } from '../../format/text.ts';
import { Answer, Empty } from '../../ui/frame/answer.tsx';
import { Pager } from '../../ui/lists/pager.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Status } from '../../ui/status.tsx';
import { Faint, JobId, Nothing } from '../../ui/text.tsx';
import classes from './results.module.css';

/** Lists the results of a step's jobs, and those that are not done, 20 a page. */
export function Results({ flow, step }: { readonly flow: string; readonly step: string }): ReactNode {
  const [after, setAfter] = useState<string>();
  const query = useFlowResults(flow, { step, limit: 20, ...(after !== undefined && { after }) });
  return (
    <Answer query={query} rows={3}>
      {({ items, next, seesResults }) => (
        <>
          {items.length === 0 ? (
            <Empty title="No results">Jobs that are done and return nothing are not listed.</Empty>
          ) : (
            <DataTable
              label="Results"
              columns={seesResults ? [...columns, result] : columns}
              rows={items}
              rowKey={({ job }) => job ?? 'signal'}
            />
          )}
          {!seesResults && <Faint>Operators see results; you are a viewer.</Faint>}
          <Pager after={after} next={next} onPage={setAfter} />
        </>
      )}
    </Answer>
  );
}

const columns: readonly Column<FlowResult>[] = [
  {
    name: 'Job',
    leads: true,
    tight: true,
    cell: ({ job }) => (job === null ? 'the signal’s value' : <JobId id={job} />),
  },
  { name: 'Outcome', tight: true, cell: ({ outcome }) => <Status of={outcome} /> },
];

const result: Column<FlowResult> = {
  name: 'Result',
  cell: (row) =>
    row.result === null ? (
      <Nothing />
    ) : (
      <span className={classes.result} dir="ltr">
        <bdi>{visible(row.result)}</bdi>
        {row.cut && <Faint>… cut; the job’s page has all of it</Faint>}
        {row.redacted && <Faint> redacted</Faint>}
      </span>
    ),
};
