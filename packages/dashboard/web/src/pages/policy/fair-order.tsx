import type { ReactNode } from 'react';
import type { Lead } from '../../../../src/contract.ts';
import { Empty } from '../../ui/frame/answer.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Name } from '../../ui/text.tsx';
import { leadText } from './lead.ts';
import classes from './policy.module.css';

const note =
  'how much each share has had beyond the one beside it that had least; that one has a lead of 0, and goes next';

/** Lists the leads of shares in the fair order, the smallest first. */
export function FairOrder({ leads }: { readonly leads: readonly Lead[] }): ReactNode {
  const byTime = leads.some(({ unit }) => unit === 'time');
  return (
    <Panel title="Fair order" note={byTime ? `${note}, unless more of it runs now` : note} flush>
      {leads.length === 0 ? (
        <Empty title="The order keeps none">Fair orders charge each key for what it got.</Empty>
      ) : (
        <DataTable
          label="Leads in the fair order"
          rows={leads}
          rowKey={({ pool, path }) => JSON.stringify([pool, path])}
          columns={[
            { name: 'Share', leads: true, cell: ({ path }) => <Path of={path} /> },
            { name: 'Pool', cell: ({ pool }) => <Name text={pool} /> },
            {
              name: 'Lead, by weight',
              title: 'jobs, cost or worker time that it was charged, divided by its weight',
              align: 'right',
              cell: (row) => {
                const { shown, whole } = leadText(row);
                return <span title={whole}>{shown}</span>;
              },
            },
          ]}
        />
      )}
    </Panel>
  );
}

function Path({ of }: { readonly of: readonly string[] }): ReactNode {
  return (
    <span className={classes.path}>
      {of.map((name, index) => (
        <span key={`${index} ${name}`}>
          <Name text={name} max={60} />
        </span>
      ))}
    </span>
  );
}
