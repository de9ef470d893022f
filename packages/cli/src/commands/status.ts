import type { Status } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { age, percent } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { facts } from '../output/table.ts';
import { examples } from './help.ts';

export function addStatus(program: Command): void {
  const command = program
    .command('status')
    .summary('show depth, ages, leader, nodes and warnings')
    .description(
      'Shows how the installation does: its queues, its leader, its nodes, and what needs attention.',
    )
    .action((_options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const status = await operator.status();
        output.answer(status, () => statusText(status, output));
      }),
    );
  examples(command, [
    ['status', 'one look'],
    ['status --json', 'the same for a program'],
  ]);
}

function statusText(status: Status, output: Output): string {
  const { leader, nodes, totals, oldestSnapshot } = status;
  const overview = facts([
    ['schema', `${status.schema} (version ${status.schemaVersion})`],
    [
      'leader',
      leader.leader === null
        ? 'none'
        : `${leader.leader}, epoch ${leader.epoch}, lease ends in ${age(leader.expiresInMs)}`,
    ],
    [
      'nodes',
      `${nodes.alive} alive, ${nodes.draining} draining, ${nodes.lost} lost, ${nodes.left} left; ${nodes.leases} of ${nodes.slots} slots in use`,
    ],
    ['done', `${totals.donePerSecond.toFixed(1)}/s over the last 5 minutes`],
    [
      'oldest snapshot',
      oldestSnapshot === null
        ? 'none'
        : `${age(oldestSnapshot.ageMs)}: session ${oldestSnapshot.pid}, ${oldestSnapshot.application || 'no application name'}`,
    ],
  ]);
  const queues = output.table(
    [
      'queue',
      'delayed',
      'pending',
      'ready',
      'running',
      'dead',
      'oldest',
      'claim age',
      'retry rate',
      'done 5m',
    ],
    status.queues.map((queue) => [
      queue.paused ? `${queue.queue} (paused)` : queue.queue,
      queue.delayed,
      queue.pending,
      queue.ready,
      queue.running,
      queue.dead,
      age(queue.oldestMs),
      age(queue.claimAgeMs),
      percent(queue.retryRate),
      queue.done5m,
    ]),
  );
  const warnings = status.warnings.map(({ message }) => `WARN  ${message}`);
  return [overview, '', status.queues.length === 0 ? 'no queues yet' : queues, ...warnings].join('\n');
}
