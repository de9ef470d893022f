import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { nodeProblem } from './node-version.ts';

test.each(['22.12.0', '22.20.1', '23.0.0', '24.3.0', '100.0.0-nightly'])('Node %s will do', (version) => {
  expect(nodeProblem(version)).toBeUndefined();
});

test.each(['18.20.4', '20.20.2', '22.11.9'])('Node %s is too old', (version) => {
  expect(nodeProblem(version)).toBe(
    `this is Node ${version}, and pgqueue needs Node 22.12 or newer: install one (https://nodejs.org), or put it first on PATH`,
  );
});

test('the version asked for is that of the package', () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  expect(JSON.parse(manifest)).toMatchObject({ engines: { node: '>=22.12' } });
});
