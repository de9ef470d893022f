import type { ReactNode } from 'react';
import type { NodeRow, NodeTask } from '../../../../src/contract.ts';
import { useNodeJobs } from '../../api/queries.ts';
import { span } from '../../format/times.ts';
import { Answer, Empty } from '../../ui/frame/answer.tsx';
import { Foreign, Nothing } from '../../ui/text.tsx';
import { JobTable } from '../jobs/job-table.tsx';
import classes from './node-details.module.css';

/** Shows the jobs that a node runs, and the tasks it can run. */
export function NodeDetails({ node }: { readonly node: NodeRow }): ReactNode {
  const query = useNodeJobs(node.id);
  return (
    <div className={classes.details}>
      <h3>Runs now</h3>
      <Answer query={query} rows={3}>
        {({ items, next }) => (
          <>
            {items.length === 0 ? <Empty title="It holds no job" /> : <JobTable rows={items} />}
            {next !== null && <p>The newest {items.length}; there are more.</p>}
          </>
        )}
      </Answer>
      <h3>Can run</h3>
      {node.tasks.length === 0 ? (
        <Nothing says="no task" />
      ) : (
        <ul className={classes.tasks}>
          {node.tasks.map((task) => (
            <li key={task.task}>
              <Foreign text={task.task} max={80} /> <span>{wordsOf(task)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function wordsOf({ min, max, timeoutMs, batch, isolated }: NodeTask): string {
  return [
    min === max ? `version ${min}` : `versions ${min} to ${max}`,
    timeoutMs !== null && `timeout ${span(timeoutMs)}`,
    batch && 'bundles whole',
    isolated && 'isolated',
  ]
    .filter((word) => word !== false)
    .join(', ');
}
