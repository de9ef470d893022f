// The dashboard's front end, built when it is missing or older than its sources: for all that runs from a clone.
//   node scripts/build-web.mjs
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const home = fileURLToPath(new URL('../packages/dashboard', import.meta.url));
const built = join(home, 'dist', 'web');

/** The newest change of what the bundle is made of. */
function changed() {
  const sources = readdirSync(join(home, 'web'), { recursive: true, encoding: 'utf8' });
  const files = [...sources.map((file) => join(home, 'web', file)), join(home, 'package.json')];
  return Math.max(...files.map((file) => statSync(file).mtimeMs));
}

/** Builds beside the old bundle, and then takes its place: whoever reads meanwhile gets one or the other. */
async function build() {
  const { build: bundle } = await import('vite');
  mkdirSync(join(home, 'dist'), { recursive: true });
  const made = mkdtempSync(join(home, 'dist', 'web-'));
  const configFile = join(home, 'web', 'vite.config.ts');
  // its configuration sets it for production
  const mode = process.env['NODE_ENV'];
  try {
    await bundle({ configFile, logLevel: 'error', build: { outDir: made } });
  } finally {
    if (mode === undefined) delete process.env['NODE_ENV'];
    else process.env['NODE_ENV'] = mode;
  }
  chmodSync(made, 0o755);
  const old = `${made}-old`;
  if (existsSync(built)) renameSync(built, old);
  renameSync(made, built);
  rmSync(old, { recursive: true, force: true });
}

/** @returns {Promise<boolean>} whether there was anything to do */
export async function ensureWeb() {
  const page = join(built, 'index.html');
  if (existsSync(page) && statSync(page).mtimeMs >= changed()) return false;
  await build();
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await ensureWeb();
