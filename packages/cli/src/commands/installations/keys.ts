import type { KeyMoved, MovePlan, MoveProgress } from '@pgqueue/router';
import type { Command } from 'commander';
import { acrossInstallations, withRouter } from '../../installations.ts';
import { oneLine, plural } from '../../output/format.ts';
import type { Output } from '../../output/output.ts';
import { examples } from '../help.ts';

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('Moves keys between installations.');
  addMove(keys);
  examples(keys, [['keys move acme --to eu-2 --installations all.json', 'eu-2 becomes its home']]);
}

interface MoveOptions {
  readonly to: string;
  readonly dryRun?: boolean;
}

function addMove(keys: Command): void {
  const command = acrossInstallations(keys.command('move'))
    .description(
      'Moves a key to another installation, with its waiting jobs, while it is enqueued to and worked on. Jobs that run are waited for. After an interruption, give the same command again: it goes on.',
    )
    .argument('<key>', 'the key')
    .requiredOption('--to <name>', 'name of the installation that is to be its home')
    .option('--dry-run', 'says how many jobs would move, and how long that takes')
    .action((key: string, { to, dryRun = false }: MoveOptions, self: Command) =>
      withRouter(self, async (router, output) => {
        const { keys: operator } = router.operator;
        if (dryRun) {
          const plan = await operator.plan(key, { to });
          output.answer(plan, () => planText(plan, output));
          return;
        }
        const moved = await operator.move(key, { to, onProgress: tellProgress(output) });
        output.answer(moved, () => movedText(moved));
      }),
    );
  examples(command, [
    ['keys move acme --to eu-2 --installations all.json --dry-run', 'how many jobs, how many minutes'],
    ['keys move acme --to eu-2 --installations all.json', 'and move it'],
  ]);
}

/** Shows how far moves have come. */
export function tellProgress(output: Output): (progress: MoveProgress) => void {
  return ({ key, phase, jobs, left }) => {
    const at = left === 'running' ? ', waiting for jobs that run' : '';
    output.progress(`${key}: ${phase === 'open' ? 'done' : 'moving'}, ${plural(jobs, 'job')}${at}`);
  };
}

const shownMax = 20;

export function planText({ moves, jobs, minutes }: MovePlan, output: Output): string {
  if (moves.length === 0) return 'every key is where it belongs';
  const rows = moves.slice(0, shownMax).map((move) => [move.key, move.from, move.to, move.jobs]);
  const more = moves.length > shownMax ? [`and ${moves.length - shownMax} more`] : [];
  const sum = `${plural(moves.length, 'key')}, ${plural(jobs, 'job')}: about ${plural(minutes, 'minute')}, and until those that run have ended`;
  return [output.table(['key', 'from', 'to', 'jobs'], rows), ...more, sum].join('\n');
}

export function movedText(moved: KeyMoved): string {
  const { key, from, to, jobs, freed, unreachable } = moved;
  const lines = [`key ${key}: moved from ${from} to ${to}, ${plural(jobs, 'job')} came along`];
  if (freed > 0)
    lines.push(
      `${plural(freed, 'job')} came without the unique key, which a newer job has there: both will run`,
    );
  if (unreachable.length > 0)
    lines.push(
      `no copy of the route yet in ${unreachable.join(', ')}: run "pgqueue installations check --mend"`,
    );
  return lines.map(oneLine).join('\n');
}
