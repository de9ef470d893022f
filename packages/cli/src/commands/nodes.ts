import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { age, brief, plural } from '../output/format.ts';
import { examples } from './help.ts';

export function addNodes(program: Command): void {
  const nodes = program
    .command('nodes')
    .description('Lists worker nodes, and takes back the jobs of a dead one.');
  addList(nodes);
  addReset(nodes);
  examples(nodes, [
    ['nodes list', 'the nodes that live'],
    ['nodes reset worker-3', 'after its machine was lost'],
  ]);
}

function addList(nodes: Command): void {
  const command = nodes
    .command('list')
    .description('Lists every node, live ones first, ended ones for a day.')
    .action((_options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const list = await operator.nodes.list();
        output.answer({ nodes: list }, () =>
          list.length === 0
            ? 'no nodes'
            : output.table(
                ['node', 'state', 'pool', 'leases', 'slots', 'heartbeat', 'up', 'tasks', 'software'],
                list.map((node) => [
                  node.id,
                  node.overdue ? `${node.state} (silent)` : node.state,
                  node.pool,
                  node.leases,
                  node.slots,
                  `${age(node.heartbeatAgeMs)} ago`,
                  age(node.ageMs),
                  brief(Object.keys(node.tasks).join(', '), 40),
                  node.software,
                ]),
              ),
        );
      }),
    );
  examples(command, [['nodes list --json', 'with the versions of each task']]);
}

function addReset(nodes: Command): void {
  const command = nodes
    .command('reset')
    .description(
      'Takes back all jobs of a dead node, whatever their timeouts, so that other nodes run them at once. Refuses what the old process settles later. Its suspects (jobs lost with their node before) count a crash; if it ran none, all of its jobs do.',
    )
    .argument('<node>', 'id of the node, as in "nodes list"')
    .action((node: string, _options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const result = await operator.nodes.reset(node);
        const { ready, dead, cancelled } = result;
        output.answer(
          { node, ...result },
          () =>
            `node ${node} is reset: ${plural(ready, 'job')} ready for others, ${dead} dead at their crash limit, ${cancelled} cancelled`,
        );
      }),
    );
  examples(command, [['nodes reset worker-3', 'after its machine went away']]);
}
