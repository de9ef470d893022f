import type { FlowJob } from 'bullmq';
import type { BenchJob } from '../load.ts';

/**
 * Returns a flow as BullMQ has them, a tree whose parents wait for their children: the last step is the root.
 * @throws if a step behind the first has several jobs
 */
export function treeOf(steps: readonly (readonly BenchJob[])[], name: string): FlowJob {
  const [root] = steps.reduce<readonly FlowJob[]>(
    (children, jobs) =>
      jobs.map(({ payload: data }, at): FlowJob => {
        if (at > 0 && children.length > 0) throw new Error('in a tree, only the first step has several jobs');
        return { name, queueName: name, data, ...(children.length === 0 ? {} : { children: [...children] }) };
      }),
    [],
  );
  if (root === undefined) throw new Error('a flow needs a step');
  return root;
}
