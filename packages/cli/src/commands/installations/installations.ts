import type { Checked, CheckedInstallation } from '@pgqueue/router';
import type { Command } from 'commander';
import { withOperator } from '../../context.ts';
import { acrossInstallations, withRouter } from '../../installations.ts';
import { oneLine, plural } from '../../output/format.ts';
import type { Output } from '../../output/output.ts';
import { whole } from '../../parse.ts';
import { examples } from '../help.ts';
import { addRebalance } from './rebalance.ts';

export function addInstallations(program: Command): void {
  const installations = program
    .command('installations')
    .description(
      'Numbers installations, lists several, checks that they fit together, and moves keys between them.',
    );
  addInit(installations);
  addList(installations);
  addCheck(installations);
  addRebalance(installations);
  examples(installations, [
    ['installations init --number 1 --name eu-1', 'for each database, once'],
    ['installations check --installations all.json', 'do they fit together?'],
  ]);
}

function addInit(installations: Command): void {
  const command = installations
    .command('init')
    .description(
      'Gives the installation of --database-url its number and its name among several. Its ids name the number.',
    )
    .requiredOption('--number <n>', 'number, 0 to 1023, which no other one has', whole(0, 1_023))
    .requiredOption('--name <name>', 'name, which no other one has: a-z, 0-9, - and _')
    .action((identity: { readonly number: number; readonly name: string }, self: Command) =>
      withOperator(self, async (operator, output) => {
        const { number, name } = identity;
        const outcome = await operator.installation.init({ number, name });
        output.answer({ number, name, outcome }, () =>
          oneLine(`installation ${name} (number ${number}): ${outcome}`),
        );
      }),
    );
  examples(command, [['installations init --number 1 --name eu-1', 'before its producers start']]);
}

function addList(installations: Command): void {
  const command = acrossInstallations(installations.command('list'))
    .description('Lists the installations of --installations, with what each says of itself.')
    .action((_options: unknown, self: Command) =>
      withRouter(self, async (router, output) => {
        const checked = await router.operator.check();
        output.answer(checked.installations, () => listText(checked, output));
      }),
    );
  examples(command, [['installations list --installations all.json', 'numbers, names, versions, routes']]);
}

function addCheck(installations: Command): void {
  const command = acrossInstallations(installations.command('check'))
    .description(
      'Checks that installations fit together: numbers and names, schema versions, clocks, copies of routes, moves of keys that stand still. Exit code 1: something does not.',
    )
    .option('--mend', 'write missing copies of routes')
    .action(({ mend = false }: { readonly mend?: boolean }, self: Command) =>
      withRouter(self, async (router, output) => {
        const checked = await router.operator.check({ mend });
        output.answer(checked, () => checkText(checked));
        return checked.misfits.every(({ mended }) => mended) ? 0 : 1;
      }),
    );
  examples(command, [['installations check --installations all.json --mend', 'and put right what can be']]);
}

function listText(checked: Checked, output: Output): string {
  const heads = ['number', 'name', 'state', 'schema', 'clock', 'routes'];
  const rows = checked.installations.map((one) => [
    one.number,
    one.installation,
    stateOf(one, checked),
    one.schemaVersion,
    one.clockMs === null ? null : `${one.clockMs > 0 ? '+' : ''}${one.clockMs} ms`,
    one.routes,
  ]);
  return output.table(heads, rows);
}

function stateOf({ installation, state }: CheckedInstallation, { misfits }: Checked): string {
  const misfit = misfits.find(
    (one) => one.installation === installation && (one.kind === 'unreachable' || one.kind === 'identity'),
  );
  if (misfit === undefined) return state;
  return misfit.kind === 'unreachable' ? 'unreachable' : 'another one';
}

function checkText({ installations, misfits }: Checked): string {
  const told = misfits.map(({ installation, message, mended }) =>
    oneLine(`${mended ? 'MENDED' : 'FAIL  '}  ${installation}: ${message}`),
  );
  const all = plural(installations.length, 'installation');
  return misfits.length === 0 ? `${all}: all fit together` : [`${all}:`, ...told].join('\n');
}
