import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { UsageError } from '../errors.ts';
import { age, percent } from '../output/format.ts';
import { duration } from '../parse.ts';
import { examples } from './help.ts';

export function addQueues(program: Command): void {
  const queues = program.command('queues').description('Lists and configures queues.');
  addList(queues);
  addPause(queues, 'pause');
  addPause(queues, 'resume');
  addSet(queues);
  examples(queues, [
    ['queues list', 'depth and settings'],
    ['queues pause mail', 'starts no more of its jobs'],
  ]);
}

function addList(queues: Command): void {
  const command = queues
    .command('list')
    .description('Lists every queue that has jobs or settings.')
    .action((_options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        const list = await operator.queues.list();
        const heads = [
          'queue',
          'paused',
          'pool',
          'retention',
          'delayed',
          'pending',
          'ready',
          'running',
          'dead',
          'oldest',
          'retry rate',
        ];
        output.answer({ queues: list }, () =>
          list.length === 0
            ? 'no queues yet'
            : output.table(
                heads,
                list.map((queue) => [
                  queue.queue,
                  queue.paused ? 'yes' : 'no',
                  queue.pool,
                  age(queue.retentionMs),
                  queue.delayed,
                  queue.pending,
                  queue.ready,
                  queue.running,
                  queue.dead,
                  age(queue.oldestMs),
                  percent(queue.retryRate),
                ]),
              ),
        );
      }),
    );
  examples(command, [['queues list --json', 'for a program']]);
}

function addPause(queues: Command, verb: 'pause' | 'resume'): void {
  const paused = verb === 'pause';
  const command = queues
    .command(verb)
    .description(
      paused
        ? 'Schedules no more jobs of a queue. Those that are ready or running go on.'
        : 'Lets the jobs of a queue be scheduled again.',
    )
    .argument('<queue>', 'its name')
    .action((queue: string, _options: unknown, self: Command) =>
      withOperator(self, async (operator, output) => {
        await operator.queues[verb](queue);
        output.answer({ queue, paused }, () => `queue ${queue} ${paused ? 'is paused' : 'goes on'}`);
      }),
    );
  examples(command, [[`queues ${verb} mail`, 'takes effect with the next tick']]);
}

function addSet(queues: Command): void {
  const command = queues
    .command('set')
    .description('Changes the settings of a queue; what is not given stays as it is.')
    .argument('<queue>', 'its name')
    .option('--pool <pool>', 'the group of nodes that serves it')
    .option('--retention <duration>', 'how long its HISTORY is kept; 0s keeps none', duration)
    .action((queue: string, options: { pool?: string; retention?: number }, self: Command) => {
      const { pool, retention } = options;
      if (pool === undefined && retention === undefined)
        throw new UsageError('give --pool, --retention, or both');
      return withOperator(self, async (operator, output) => {
        const settings = {
          ...(pool === undefined ? {} : { pool }),
          ...(retention === undefined ? {} : { retention }),
        };
        await operator.queues.set(queue, settings);
        output.answer({ queue, ...settings }, () => `queue ${queue} is set`);
      });
    });
  examples(command, [
    ['queues set reports --pool slow', 'served by nodes started with --pool slow'],
    ['queues set mail --retention 30d', 'keeps its history for a month'],
  ]);
}
