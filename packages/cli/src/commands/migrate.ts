import { migrate, migrationStatus } from '@pgqueue/postgres';
import type { Migration } from '@pgqueue/postgres';
import { schemaVersion } from '@pgqueue/postgres/internal';
import type { Command } from 'commander';
import { contextOf, databaseOptions } from '../context.ts';
import { Exit } from '../errors.ts';
import type { Output } from '../output/output.ts';
import { plural } from '../output/format.ts';
import { examples } from './help.ts';

export function addMigrate(program: Command): void {
  const command = program
    .command('migrate')
    .summary('bring the schema to the newest version')
    .description(
      'Creates the schema, or migrates it to the newest version. Forward only, with a transaction for each migration. Safe to run several times at once.',
    )
    .option('--status', 'only show which migrations are applied; exit with 1 if any is not')
    .option('--roles', 'also create the roles of least privilege (needs CREATEROLE)')
    .action(async ({ status, roles }: { status?: boolean; roles?: boolean }, self: Command) => {
      const context = contextOf(self);
      const options = databaseOptions(context, 'migrate');
      if (status === true) return showStatus(context.output, await migrationStatus(options));
      const applied: Migration[] = [];
      const all = await migrate({
        ...options,
        roles: roles === true,
        onApplied: (migration) => {
          applied.push(migration);
          context.output.progress(`applied ${migration.name}`);
        },
      });
      const { schema } = context.settings;
      context.output.answer({ schema, applied, roles: roles === true }, () =>
        [
          ...applied.map(({ name }) => `applied ${name}`),
          applied.length === 0
            ? (newerText(all) ?? `schema "${schema}" is up to date`)
            : `schema "${schema}": ${plural(applied.length, 'migration')} applied`,
          ...(roles === true
            ? [`roles ${schema}_producer, _scheduler, _worker, _viewer, _operator have their rights`]
            : []),
        ].join('\n'),
      );
    });
  examples(command, [
    ['migrate', 'creates schema "pgqueue", or brings it up to date'],
    ['migrate --status', 'shows each migration, and when it was applied'],
    ['migrate --schema jobs --roles', 'another schema, with roles jobs_producer, jobs_worker, …'],
  ]);
}

/** Says that the schema has migrations that this package does not know; undefined: it has none. */
function newerText(migrations: readonly Migration[]): string | undefined {
  const newer = migrations.filter(({ version }) => version > schemaVersion.knows);
  if (newer.length === 0) return undefined;
  const fits = newer.every(({ compatible }) => compatible);
  return `the schema is newer than this package: ${fits ? 'both fit together' : 'upgrade the @pgqueue packages'}`;
}

function showStatus(output: Output, migrations: readonly Migration[]): void {
  const missing = migrations.filter(({ applied }) => applied === null).length;
  const newer = newerText(migrations);
  output.answer({ migrations, missing }, () =>
    [
      output.table(
        ['version', 'name', 'compatible', 'applied'],
        migrations.map(({ version, name, compatible, applied }) => [
          version,
          name,
          compatible ? 'yes' : 'no',
          applied?.toISOString() ?? 'not yet',
        ]),
      ),
      ...(newer === undefined ? [] : [newer]),
      ...(missing === 0 ? [] : [`${plural(missing, 'migration')} to apply: run "pgqueue migrate"`]),
    ].join('\n'),
  );
  if (missing > 0) throw new Exit(1);
}
