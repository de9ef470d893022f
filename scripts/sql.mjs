// Makes the migrations from packages/postgres/sql, where the text of every table, function and view stands once:
//   node scripts/sql.mjs           writes them
//   node scripts/sql.mjs --check   fails where they are not what the files say
// Until 1.0 there is one migration, made anew with each change: in 34 migrations of an unreleased product, a third of the lines
// were bodies that later ones replaced. An installation of an earlier state is dropped and made again; `pgqueue migrate` refuses
// it by its checksum. From 1.0 on this migration stays as it is, and a change of a statement in sql/ goes with a migration that
// brings it. That one makes an index on `queue` concurrently, outside a transaction: a plain one holds up enqueues.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'packages/postgres/sql');

/** Every file in the order in which it is applied: a table's default calls the function that makes ids. */
export function sqlFiles() {
  const inFolder = (/** @type {string} */ folder) =>
    readdirSync(join(source, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.sql'))
      .toSorted()
      .map((name) => `${folder}/${name}`);
  const ids = 'functions/ids.sql';
  const functions = inFolder('functions').filter((name) => name !== ids);
  return [ids, ...inFolder('tables'), ...functions, 'views.sql'].map((name) => ({
    name,
    sql: readFileSync(join(source, name), 'utf8'),
  }));
}

function migrations() {
  const head = `-- pgqueue: its tables, functions and views.
-- compatible: no (the first one)
--
-- Made by scripts/sql.mjs from packages/postgres/sql: change it there.
-- Names are unqualified: the migrator sets search_path to the installation's schema, so that any schema name works and several
-- installations live in one database. Bodies name functions of later files: they are checked when they are called.
set local check_function_bodies = off;
`;
  const body = sqlFiles().map(({ name, sql }) => `\n-- ${name}\n\n${sql}`);
  return {
    '0001_initial.sql': `${head}${body.join('')}`,
    'roles.sql': readFileSync(join(source, 'roles.sql'), 'utf8'),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, text] of Object.entries(migrations())) {
    const file = join(root, 'migrations', name);
    if (!process.argv.includes('--check')) writeFileSync(file, text);
    else if (readFileSync(file, 'utf8') !== text) {
      console.error(`migrations/${name} is not what packages/postgres/sql says: run "node scripts/sql.mjs"`);
      process.exitCode = 1;
    }
  }
}
