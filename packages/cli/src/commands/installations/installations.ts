import type { Checked, CheckedInstallation } from '@pgqueue/router';
import type { Command } from 'commander';
import { withOperator } from '../../context.ts';
import { acrossInstallations, withRouter } from '../../installations.ts';
import { oneLine, plural } from '../../output/format.ts';
import { partsText } from '../../output/limits-text.ts';
import type { Output } from '../../output/output.ts';
import { whole } from '../../parse.ts';
import { examples } from '../help.ts';
import { addRebalance } from './rebalance.ts';

export function addInstallations(program: Command): void {
  const installations = program
    .command('installations')
    .description(
      'Numbers installations, lists several, checks that they fit together, shows the limits that they share, and moves keys between them.',
    );
  addInit(installations);
  addList(installations);
  addCheck(installations);
  addRebalance(installations);
  addLimits(installations);
  addForfeit(installations);
  addRemoveLimit(installations);
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
      'Checks that installations fit together: numbers and names, schema versions, clocks, copies of routes, moves of keys that stand still, shared limits. Exit code 1: something does not.',
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

function addLimits(installations: Command): void {
  const command = acrossInstallations(installations.command('limits'))
    .description(
      'Lists the limits that installations share: home, size, and the part of each installation. Exit code 1: one does not answer.',
    )
    .action((_options: unknown, self: Command) =>
      withRouter(self, async (router, output) => {
        const { limits, installations: all } = await router.operator.status();
        const down = all.flatMap(({ error }) => error ?? []);
        output.answer(limits, () =>
          limits.length === 0 && down.length > 0
            ? 'no shared limits in those that answer'
            : partsText(limits, output),
        );
        for (const error of down) output.note(`DOWN  ${oneLine(error)}`);
        return down.length === 0 ? 0 : 1;
      }),
    );
  examples(command, [['installations limits --installations all.json', 'who has which part']]);
}

function addForfeit(installations: Command): void {
  const command = acrossInstallations(installations.command('forfeit <limit> <installation>'))
    .description(
      'Gives the part of an installation that is gone back to the others: nothing of the limit may run there, and its schedulers must be stopped for a minute.',
    )
    .action((limit: string, installation: string, _options: unknown, self: Command) =>
      withRouter(self, async (router, output) => {
        const { reserved } = await router.operator.limits.forfeit({ limit, installation });
        output.answer({ limit, installation, reserved }, () =>
          oneLine(`${installation} gave back its part of ${limit}: ${reserved}`),
        );
      }),
    );
  examples(command, [['installations forfeit vendor-api us-1 --installations all.json', 'us-1 is gone']]);
}

function addRemoveLimit(installations: Command): void {
  const command = acrossInstallations(installations.command('remove-limit <limit>'))
    .description(
      'Removes a shared limit that no policy has used for a minute, so that it may get another home.',
    )
    .option('--home <name>', 'installation to remove it in, if it has two homes')
    .action((limit: string, { home }: { readonly home?: string }, self: Command) =>
      withRouter(self, async (router, output) => {
        await router.operator.limits.remove(limit, home === undefined ? {} : { home });
        output.answer({ limit }, () => oneLine(`removed shared limit ${limit}`));
      }),
    );
  examples(command, [['installations remove-limit vendor-api --installations all.json', '']]);
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
