// Writes package.json and package-lock.json of a folder that holds pnpm and nothing else, with the SHA-512 that pnpm-lock.yaml has of each of
// its packages: `npm ci` there refuses any other. npm install pnpm@VERSION would take whatever the registry gives.
import { readFileSync, writeFileSync } from 'node:fs';

const version = /"packageManager": "pnpm@([\d.]+)/.exec(readFileSync('package.json', 'utf8'))?.[1] ?? '';
const locked = [
  ...readFileSync('pnpm-lock.yaml', 'utf8').matchAll(
    /^ {2}'?((?:@pnpm\/exe\.[\w-]+|pnpm))@(\S+?)'?:\n {4}resolution: \{integrity: (\S+?)\}/gm,
  ),
]
  .filter(([, , found]) => found === version)
  .map(([, name = '', , integrity]) => ({ name, integrity }));
if (!locked.some(({ name }) => name === 'pnpm'))
  throw new Error(`pnpm-lock.yaml does not have pnpm ${version}`);

const [folder = '.'] = process.argv.slice(2);
const root = { dependencies: { pnpm: version } };
const optionalDependencies = Object.fromEntries(
  locked.filter(({ name }) => name !== 'pnpm').map(({ name }) => [name, version]),
);
const packages = Object.fromEntries(
  locked.map(({ name, integrity }) => {
    const [, os, cpu] = /^@pnpm\/exe\.(\w+)-(\w+)/.exec(name) ?? [];
    const rest =
      name === 'pnpm'
        ? { hasInstallScript: true, bin: { pnpm: 'pnpm' }, optionalDependencies }
        : { os: [os], cpu: [cpu], optional: true };
    return [`node_modules/${name}`, { version, integrity, ...rest }];
  }),
);
writeFileSync(`${folder}/package.json`, JSON.stringify(root));
writeFileSync(
  `${folder}/package-lock.json`,
  JSON.stringify({ lockfileVersion: 3, requires: true, packages: { '': root, ...packages } }, null, 2),
);
