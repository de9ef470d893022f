import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { builds, lockfileProblems, settingsProblems, withInstallScripts } from './supply-chain.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

describe('what is installed', () => {
  test('keeps to the rules of pnpm-workspace.yaml, without exceptions', () => {
    expect(settingsProblems(read('pnpm-workspace.yaml'))).toEqual([]);
  });

  test('runs an install script only where that is decided, with a reason', () => {
    const decided = builds(read('pnpm-workspace.yaml'));
    expect(decided.length).toBeGreaterThan(3);
    const known = new Set(decided.map(({ name }) => name));
    const scripted = withInstallScripts(join(root, 'node_modules'));
    expect(scripted.length).toBeGreaterThan(0);
    expect(scripted.filter((name) => !known.has(name))).toEqual([]);
  });

  test('is judged by the Node that is installed', () => {
    const [judged, installed] = [/^nodeVersion: (.*)$/m, /^ {2}node: (\d.*)$/m].map(
      (line) => line.exec(read('pnpm-workspace.yaml'))?.[1],
    );
    expect(judged).toBe(installed ?? 'a version');
  });

  test('is what the lockfile says, by checksum', () => {
    expect(lockfileProblems(read('pnpm-lock.yaml'))).toEqual([]);
  });

  test.each(['scripts/bootstrap.mjs', 'docker/Dockerfile'])('%s installs with a frozen lockfile', (file) => {
    const installs = read(file).match(/\binstall['"]?,? .*/g) ?? [];
    const ours = installs.filter((line) => /--(?!global)/.test(line));
    expect(ours.length).toBeGreaterThan(0);
    expect(ours.filter((line) => !line.includes('--frozen-lockfile'))).toEqual([]);
  });

  test('no package of ours has an install script', () => {
    const names = ['core', 'postgres', 'telemetry', 'producer', 'scheduler', 'worker', 'lab', 'cli'];
    for (const name of names) {
      const { scripts = {} } = JSON.parse(read(`packages/${name}/package.json`)) as { scripts?: object };
      expect(Object.keys(scripts).filter((step) => /^(?:pre|post)?install$/.test(step))).toEqual([]);
    }
  });
});

describe('a seeded breach is caught', () => {
  const workspace = read('pnpm-workspace.yaml');

  test.each([
    ['a day', (text: string) => text.replace('minimumReleaseAge: 1440', 'minimumReleaseAge: 0')],
    ['evidence', (text: string) => text.replace('trustPolicy: no-downgrade', 'trustPolicy: off')],
    ['evidence', (text: string) => text.replace(/^trustPolicy:.*\n/m, '')],
    ['exception', (text: string) => `${text}minimumReleaseAgeExclude:\n  - left-pad\n`],
    ['without a reason', (text: string) => text.replace(/^allowBuilds:\n.*#.*\n/m, 'allowBuilds:\n')],
  ])('%s', (what, breach) => {
    expect(settingsProblems(breach(workspace))).toEqual([expect.stringContaining(what)]);
  });

  test.each([
    ['a package without a checksum', /\{integrity: [^}]+\}/, '{}'],
    ['a tarball', /\{integrity: [^}]+\}/, '{tarball: https://example.org/a.tgz}'],
    ['a weak checksum', /integrity: sha512-/, 'integrity: sha1-'],
    ['a package without a resolution', /^ {4}resolution: .*\n/m, ''],
  ])('%s', (_what, from, to) => {
    expect(lockfileProblems(read('pnpm-lock.yaml').replace(from, to))).toHaveLength(1);
  });
});
