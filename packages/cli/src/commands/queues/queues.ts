import type { QueueInfo } from '@pgqueue/postgres';
import { rateText } from '@pgqueue/postgres/internal';
import { Argument } from 'commander';
import type { Command } from 'commander';
import { withOperator } from '../../context.ts';
import { acrossInstallations, withOperations } from '../../installations.ts';
import { age, oneLine, percent } from '../../output/format.ts';
import { queueName } from '../../parse.ts';
import { examples } from '../help.ts';
import { addQueueSet, newText } from './queue-set.ts';

export function addQueues(program: Command): void {
  const queues = program.command('queues').description('Lists and configures queues.');
  addList(queues);
  addPause(queues, 'pause');
  addPause(queues, 'resume');
  addQueueSet(queues);
  addForget(queues);
  examples(queues, [
    ['queues list', 'depth and settings'],
    ['queues pause mail', 'stops the dispatch of its jobs'],
    ['queues set mail --concurrency 20', 'limits how many are in flight'],
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
          'limits',
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
                  limitsText(queue),
                ]),
              ),
        );
      }),
    );
  examples(command, [['queues list --json', 'for a program']]);
}

function addPause(queues: Command, verb: 'pause' | 'resume'): void {
  const paused = verb === 'pause';
  const command = acrossInstallations(queues.command(verb))
    .description(
      paused
        ? 'Stops the dispatch of a queue. Jobs that are ready or running go on.'
        : 'Resumes the dispatch of a queue.',
    )
    .addArgument(new Argument('<queue>', 'name of the queue').argParser(queueName))
    .action((queue: string, _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) => {
        const { isNew } = await operator.queues[verb](queue);
        output.answer({ queue, paused, isNew }, () =>
          oneLine(`queue ${queue} ${paused ? 'is paused' : 'goes on'}${newText(isNew)}`),
        );
      }),
    );
  examples(command, [[`queues ${verb} mail`, 'takes effect with the next tick']]);
}

function addForget(queues: Command): void {
  const command = acrossInstallations(queues.command('forget'))
    .description('Removes all settings of a queue, including its limits and pause. Its jobs stay.')
    .addArgument(new Argument('<queue>', 'name of the queue').argParser(queueName))
    .action((queue: string, _options: unknown, self: Command) =>
      withOperations(self, async (operator, output) => {
        const settings = await operator.queues.forget(queue);
        output.answer({ queue, settings }, () => oneLine(`queue ${queue} has no settings any more`));
      }),
    );
  examples(command, [['queues forget mial', 'a misspelt name']]);
}

/** Formats the limits of a queue: `concurrency 5, rate 100/s burst 10`; null if there are none. */
function limitsText(queue: QueueInfo): string | null {
  const { concurrency, keyConcurrency, rate, keyRate, keyPending, weight } = queue;
  const parts = [
    concurrency === null ? [] : [`concurrency ${concurrency}`],
    keyConcurrency === null ? [] : [`key concurrency ${keyConcurrency}`],
    rate === null ? [] : [`rate ${rateText(rate)}`],
    keyRate === null ? [] : [`key rate ${rateText(keyRate)}`],
    keyPending === null ? [] : [`key pending ${keyPending}`],
    weight === 1 ? [] : [`weight ${weight}`],
  ].flat();
  return parts.length === 0 ? null : parts.join(', ');
}
