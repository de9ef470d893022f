// Around the packing of a package, in its folder:
//   prepack  builds it (the dashboard with its front end), drops what an earlier build left of sources that are gone (tsc never deletes), and
//            brings the migrations, which live at the top of the repository, into @pgqueue/postgres
//   postpack takes the copy away: a build in the repository would see it instead of the migrations
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const home = process.cwd();
const dist = join(home, 'dist');
const hasFrontEnd = existsSync(join(home, 'web'));
const holdsMigrations = home === fileURLToPath(new URL('../packages/postgres', import.meta.url));

if (holdsMigrations) rmSync('migrations', { recursive: true, force: true });
if (process.env['npm_lifecycle_event'] === 'prepack') {
  build();
  if (holdsMigrations) {
    cpSync(fileURLToPath(new URL('../migrations', import.meta.url)), 'migrations', { recursive: true });
  }
}

/** @param {string} command @param {string[]} args */
function run(command, ...args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

function build() {
  run('tsc', '-b');
  if (hasFrontEnd) run('vite', 'build', 'web', '--logLevel', 'warn');
  for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const source = file.replace(/\.(?:d\.ts|js)(?:\.map)?$/, '.ts');
    if (file.startsWith('web/')) continue;
    if (source !== file && !existsSync(join(home, 'src', source))) rmSync(join(dist, file));
  }
}
