/** Rules about the origin of dependencies, checked in the files that pnpm reads. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Required settings, each with its condition and its reason. pnpm enforces them at every install. */
const settings: readonly (readonly [name: string, holds: (value: string) => boolean, why: string])[] = [
  ['minimumReleaseAge', (value) => Number(value) >= 1_440, 'a version must be a day old'],
  ['trustPolicy', (value) => value === 'no-downgrade', 'publishing evidence must not get weaker'],
  ['blockExoticSubdeps', (value) => value === 'true', 'no sub-dependency from git or a tarball'],
  ['strictDepBuilds', (value) => value === 'true', 'an undecided install script fails the install'],
];
/** Settings that would make an exception to one of them. */
const exceptions = [
  'minimumReleaseAgeExclude',
  'trustPolicyExclude',
  'trustPolicyIgnoreAfter',
  'dangerouslyAllowAllBuilds',
];

/** Returns the problems of pnpm-workspace.yaml; empty if there are none. */
export function settingsProblems(workspace: string): readonly string[] {
  const value = (name: string): string | undefined =>
    new RegExp(`^${name}: *([^#\n]*)`, 'm').exec(workspace)?.[1]?.trim();
  return [
    ...settings
      .filter(([name, holds]) => !holds(value(name) ?? ''))
      .map(([name, , why]) => `${name} is ${value(name) ?? 'missing'}: ${why}`),
    ...exceptions
      .filter((name) => new RegExp(`^${name}:`, 'm').test(workspace))
      .map((name) => `${name} makes an exception`),
    ...builds(workspace)
      .filter(({ reason }) => reason === undefined)
      .map(({ name }) => `the install script of ${name} is decided without a reason`),
  ];
}

/**
 * Returns the packages with a decision on their install scripts: each may run or not, for the reason in the
 * comment above it.
 */
export function builds(
  workspace: string,
): readonly { readonly name: string; readonly runs: boolean; readonly reason: string | undefined }[] {
  const section = /^allowBuilds:\n((?:(?: .*)?\n)*)/m.exec(workspace)?.[1] ?? '';
  let reason: string | undefined;
  return section.split('\n').flatMap((line) => {
    const comment = /^ +# (.+)/.exec(line)?.[1];
    const entry = /^ +'?([^'\s:]+)'?: (true|false)$/.exec(line);
    if (comment !== undefined) reason = comment;
    const [, name, runs] = entry ?? [];
    return name === undefined ? [] : [{ name, runs: runs === 'true', reason }];
  });
}

/**
 * Returns the problems of pnpm-lock.yaml: packages without a checksum, or from elsewhere than the registry.
 */
export function lockfileProblems(lockfile: string): readonly string[] {
  const problems: string[] = [];
  const packages = lockfile.slice(lockfile.indexOf('\npackages:\n'), lockfile.indexOf('\nsnapshots:\n'));
  for (const [, name, resolution] of packages.matchAll(
    /^ {2}'?([^\s'][^'\n]*?)'?:\n {4}resolution: (.+)$/gm,
  )) {
    if (!/^\{integrity: sha512-[\w+/]+=*\}$/.test(resolution ?? '')) problems.push(`${name}: ${resolution}`);
  }
  const named = [...packages.matchAll(/^ {2}\S.*:$/gm)].length;
  const resolved = [...packages.matchAll(/^ {4}resolution:/gm)].length;
  if (named !== resolved) problems.push(`${named} packages, ${resolved} resolutions`);
  return problems;
}

/** Returns the installed packages with a script that an install would run. */
export function withInstallScripts(modules: string): readonly string[] {
  const found = new Set<string>();
  const manifests = globSync(['*/node_modules/*/package.json', '*/node_modules/@*/*/package.json'], {
    cwd: join(modules, '.pnpm'),
  });
  for (const file of manifests) {
    const path = join(modules, '.pnpm', file);
    const { name, scripts = {} } = JSON.parse(readFileSync(path, 'utf8')) as {
      readonly name: string;
      readonly scripts?: Readonly<Record<string, string>>;
    };
    const script = ['preinstall', 'install', 'postinstall'].some((step) => scripts[step] !== undefined);
    if (script || existsSync(join(path, '../binding.gyp'))) found.add(name);
  }
  return [...found].toSorted();
}
