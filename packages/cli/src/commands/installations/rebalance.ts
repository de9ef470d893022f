import type { Rebalanced, RebalanceOptions } from '@pgqueue/router';
import type { Command } from 'commander';
import { acrossInstallations, withRouter } from '../../installations.ts';
import { oneLine, plural } from '../../output/format.ts';
import { examples } from '../help.ts';
import { planText, tellProgress } from './keys.ts';

interface DryRun {
  readonly dryRun?: boolean;
}

/** Adds the commands that move all keys to where they belong. */
export function addRebalance(installations: Command): void {
  const drain = acrossInstallations(installations.command('drain'))
    .description(
      'Moves all keys away from an installation, to where they belong among the others. Then make it draining in the list, or take it out once its flows have ended.',
    )
    .argument('<name>', 'name of the installation')
    .option('--dry-run', 'says which keys would move, and how long that takes')
    .action((name: string, options: DryRun, self: Command) => moveAll(self, { drain: name }, options));
  examples(drain, [['installations drain eu-1 --installations all.json --dry-run', 'what would move?']]);
  const rebalance = acrossInstallations(installations.command('rebalance'))
    .description(
      'Moves all keys to where they belong: after a change of the list, or before one is made active.',
    )
    .option('--add <name>', 'an installation that is draining in the list, as if it were active')
    .option('--dry-run', 'says which keys would move, and how long that takes')
    .action(({ add, ...options }: DryRun & { readonly add?: string }, self: Command) =>
      moveAll(self, add === undefined ? {} : { add }, options),
    );
  examples(rebalance, [
    [
      'installations rebalance --add eu-3 --installations all.json',
      'its part of the keys; make it active then',
    ],
    ['installations rebalance --installations all.json', 'and what was enqueued in between'],
  ]);
}

function moveAll(command: Command, options: RebalanceOptions, { dryRun = false }: DryRun): Promise<void> {
  return withRouter(command, async (router, output) => {
    const { keys } = router.operator;
    if (dryRun) {
      const plan = await keys.planRebalance(options);
      output.answer(plan, () => planText(plan, output));
      return 0;
    }
    const done = await keys.rebalance({ ...options, onProgress: tellProgress(output) });
    output.answer(done, () => doneText(done));
    return done.failed.length > 0 ? 1 : 0;
  });
}

function doneText({ moved, failed }: Rebalanced): string {
  const jobs = moved.reduce((sum, one) => sum + one.jobs, 0);
  const lines = failed.map(({ key, to, message }) => oneLine(`FAIL  key ${key}, to ${to}: ${message}`));
  return [...lines, `${plural(moved.length, 'key')} moved, with ${plural(jobs, 'job')}`].join('\n');
}
