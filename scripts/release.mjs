// A release of all packages, at one version, from a clean commit:
//   npm run release -- --dry-run   builds and packs everything, checks types and exports of each tarball, says what would stop a release, and
//                                  publishes nothing
//   npm run release                the same, and publishes with provenance: in CI only, where the registry can see what it was built from
// Versions and changelogs come before: `pnpm changeset version`, in a commit of its own.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packAll, root, tarballProblems } from '../test/packed/tarballs.ts';

const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean', default: false } } });
const dryRun = values['dry-run'];

/**
 * Everything that makes this commit no release, whatever its tarballs are.
 * @param {readonly import('../test/packed/tarballs.ts').Tarball[]} tarballs
 */
function obstacles(tarballs) {
  const changed = spawnSync('git', ['status', '--porcelain'], { cwd: root, encoding: 'utf8' }).stdout;
  const pending = readdirSync(join(root, '.changeset')).filter((file) => file.endsWith('.md'));
  const versions = new Set(tarballs.map(({ manifest }) => manifest.version));
  const unplaced = tarballs.filter(({ manifest }) => manifest.repository === undefined);
  return [
    changed !== '' && 'files differ from the commit: commit them, or put them away',
    pending.length > 0 &&
      `${pending.length} changesets are pending: run "pnpm changeset version", and commit what it writes`,
    versions.size > 1 && `packages have ${versions.size} versions: ${[...versions].join(', ')}`,
    versions.has('0.0.0') && 'the version is 0.0.0',
    unplaced.length > 0 &&
      `${unplaced.length} packages name no "repository", which provenance is compared with`,
    process.env['ACTIONS_ID_TOKEN_REQUEST_URL'] === undefined &&
      'this is no CI job that may ask for an identity: provenance needs one (.github/workflows/release.yml)',
  ].filter((problem) => problem !== false);
}

/** @param {string} folder */
async function release(folder) {
  const tarballs = await packAll(folder);
  let sound = true;
  for (const tarball of tarballs) {
    const problems = await tarballProblems(tarball);
    sound &&= problems.length === 0;
    const size = (statSync(tarball.file).size / 1024).toFixed(0);
    const exported = Object.keys(tarball.manifest.exports).length;
    console.log(
      `${problems.length === 0 ? 'ok  ' : 'FAIL'} ${tarball.name}@${tarball.manifest.version}: ${tarball.files.length} files, ${size} KiB, ${exported} exports`,
    );
    for (const problem of problems) console.log(`     ${problem}`);
  }
  const stops = obstacles(tarballs);
  for (const stop of stops) console.log(`${dryRun ? 'before a release' : 'no release'}: ${stop}`);
  if (!sound || (stops.length > 0 && !dryRun)) return 1;
  if (dryRun) return 0;
  const env = { ...process.env, NPM_CONFIG_PROVENANCE: 'true' };
  return spawnSync('changeset', ['publish'], { cwd: root, stdio: 'inherit', env }).status ?? 1;
}

const folder = mkdtempSync(join(tmpdir(), 'pgqueue-release-'));
try {
  process.exitCode = await release(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
