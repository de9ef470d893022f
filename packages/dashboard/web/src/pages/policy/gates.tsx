import type { ReactNode } from 'react';
import type { HeldBy } from '../../../../src/contract.ts';
import { short } from '../../format/numbers.ts';
import { Empty } from '../../ui/frame/answer.tsx';
import { heldOf } from '../../ui/held.tsx';
import { to } from '../../ui/lists/filters.tsx';
import { Num } from '../../ui/numbers.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Name, To } from '../../ui/text.tsx';
import classes from './policy.module.css';

/** Lists the gates that hold jobs; the one that holds most comes first. */
export function Gates({ held }: { readonly held: readonly HeldBy[] }): ReactNode {
  return (
    <Panel title="Gates" note={`jobs held in the leader’s last plan, ${heldOf}`} flush>
      {held.length === 0 ? (
        <Empty title="Nothing is held">Every job that the leader saw may run.</Empty>
      ) : (
        <DataTable
          label="Gates"
          rows={held}
          rowKey={({ gate }) => gate}
          columns={[
            {
              name: 'Rule',
              leads: true,
              cell: ({ gate }) => <Name text={gate.replaceAll('_', ' ')} max={80} />,
            },
            { name: 'Holds', align: 'right', tight: true, cell: ({ jobs }) => <Num value={jobs} /> },
            {
              name: 'Most in',
              cell: ({ queues }) => (
                <span className={classes.where}>
                  {queues.map(({ queue, jobs }) => (
                    <span key={queue}>
                      <To to={to('/jobs', { queue, status: 'pending' })}>
                        <Name text={queue} max={60} />
                      </To>{' '}
                      {short(jobs)}
                    </span>
                  ))}
                </span>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}
