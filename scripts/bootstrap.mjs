// Runs one script of package.json from nothing but a system Node (20 or newer) and npm:
//   node scripts/bootstrap.mjs <script> [arguments]
// Dependencies are installed when the lockfile or a manifest changed since the last time. The script
// then runs directly, under the Node of the lockfile, without npm or pnpm in between. With PGQUEUE_NODE=system it runs under
// the Node that runs this file, to test another version.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampFile = join(root, 'node_modules', '.cache', 'bootstrap-stamp');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Every file whose change calls for a new install. */
function installInputs() {
  const members = ['packages', 'examples'].flatMap((parent) => {
    const folder = join(root, parent);
    return existsSync(folder) ? readdirSync(folder).map((name) => join(parent, name)) : [];
  });
  return ['pnpm-lock.yaml', 'pnpm-workspace.yaml', '.npmrc', 'package.json']
    .concat([...members, 'bench', 'docs'].map((member) => join(member, 'package.json')))
    .toSorted()
    .filter((file) => existsSync(join(root, file)));
}

function stamp() {
  const hash = createHash('sha256').update(process.platform + process.arch);
  for (const file of installInputs()) hash.update(file).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}

/** The pinned pnpm: the one on PATH if it is that version, else fetched by npx. */
function pnpmCommand() {
  const [pinned] = manifest.packageManager.split('+');
  const onPath = spawnSync('pnpm', ['--version'], { cwd: root, encoding: 'utf8' });
  if (onPath.status === 0 && `pnpm@${onPath.stdout.trim()}` === pinned) return ['pnpm'];
  return ['npx', '--yes', pinned];
}

function install() {
  const wanted = stamp();
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === wanted) return;
  const [command, ...prefix] = pnpmCommand();
  const args = [...prefix, 'install', '--frozen-lockfile'];
  // Standard output belongs to the script that runs afterwards.
  const done = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (done.status !== 0) {
    console.error(`bootstrap: \`${[command, ...args].join(' ')}\` failed`, done.error ?? '');
    process.exit(done.status ?? 1);
  }
  mkdirSync(dirname(stampFile), { recursive: true });
  writeFileSync(stampFile, wanted);
}

/** @param {string | undefined} name @param {readonly string[]} args */
function run(name, args) {
  const script = name === undefined ? undefined : manifest.scripts[name];
  if (script === undefined) {
    console.error(`bootstrap: package.json has no script "${name}"`);
    process.exit(2);
  }
  const pinned = join(root, 'node_modules', 'node', 'bin');
  const node = process.env['PGQUEUE_NODE'] === 'system' ? dirname(process.execPath) : pinned;
  const bins = [node, join(root, 'node_modules', '.bin')];
  const env = {
    ...process.env,
    PATH: [...bins, process.env['PATH']].join(delimiter),
    TURBO_TELEMETRY_DISABLED: '1',
    DO_NOT_TRACK: '1',
  };
  // `exec`: the script takes the shell's place, so that signals reach it.
  const child = spawn('sh', ['-c', `exec ${script} "$@"`, 'sh', ...args], {
    cwd: root,
    stdio: 'inherit',
    env,
  });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    // A terminal sends Ctrl-C to the whole group; only signals sent to this process are passed on.
    process.on(signal, () => (signal === 'SIGINT' && process.stdin.isTTY) || child.kill(signal));
  }
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal === null ? 1 : constants.signals[signal]);
  });
}

const [name, ...args] = process.argv.slice(2);
install();
run(name, args);
