import { onStopSignals, shareReading } from '@pgqueue/postgres/internal';
import type { Command } from 'commander';
import { contextOf, withOperator } from '../context.ts';
import { showLive } from '../output/live.ts';
import { printable } from '../output/format.ts';
import { screenOf } from '../output/screen.ts';
import { topLines } from '../output/top.ts';
import { durationWithin } from '../parse.ts';
import { examples } from './help.ts';

interface Options {
  readonly interval: number;
  readonly once?: boolean;
}

/** Size of the output that is not live: the width of a wide terminal, and all rows. */
const page = { columns: 120, rows: 10_000 };

export function addTop(program: Command): void {
  const command = program
    .command('top')
    .summary('watch queues, keys, running jobs and nodes')
    .description(
      'Shows every two seconds the queues and what holds their jobs, the keys with the most jobs, the longest running jobs, and the nodes. Press q to quit. If the output is no terminal, shows them once.',
    )
    .option(
      '--interval <duration>',
      'time between updates, from 500ms to 1h',
      durationWithin('500ms', '1h'),
      2_000,
    )
    .option('--once', 'show it once, for scripts')
    .action((options: Options, self: Command) =>
      withOperator(self, async (operator, output) => {
        const { stdin, stdout } = process;
        if (output.json || options.once === true || !stdout.isTTY || !stdin.isTTY) {
          const top = await operator.top();
          const columns = stdout.isTTY ? screenOf(stdout).columns : page.columns;
          output.answer(top, () => topLines(top, { columns, rows: page.rows }).join('\n'));
          return;
        }
        const { redact } = contextOf(self);
        const stop = onStopSignals();
        const stopping = new AbortController();
        void stop.asked.then(() => stopping.abort());
        // reading takes at most 10 % of the time, so that a slow database is read less often
        const read = shareReading(() => operator.top({ keys: 20, slowest: 20 }), {
          everyMs: options.interval / 2,
          share: 0.1,
        });
        try {
          await showLive({
            terminal: { input: stdin, output: stdout },
            intervalMs: options.interval,
            read: async () => {
              const top = await read();
              return (screen) => topLines(top, screen);
            },
            clean: (text) => redact(printable(text)),
            signal: stopping.signal,
          });
        } finally {
          stop.dispose();
        }
      }),
    );
  examples(command, [
    ['top', 'live; q ends it'],
    ['top --interval 10s', 'less often'],
    ['top --once --json', 'once, for a program'],
  ]);
}
