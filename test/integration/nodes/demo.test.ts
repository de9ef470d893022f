import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Overview } from '@pgqueue/dashboard';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../support/until.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
};

test('npm run demo shows its dashboard while it plays, and loses nothing', async () => {
  const [, ...args] = (manifest.scripts['demo:run'] ?? '').split(' ');
  const demo = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void (demo.exitCode === null && demo.kill()));
  let said = '';
  for (const stream of [demo.stdout, demo.stderr])
    stream.on('data', (part: Buffer) => (said += part.toString()));
  const ended = once(demo, 'exit');
  const address = await until('its address', () => /^dashboard: (http:\S+)/m.exec(said)?.[1]);
  const page = await fetch(address);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<div id="root">')]);
  await until('jobs to be seen there', async () => {
    const asked = await fetch(`${address}api/overview`).catch((error: unknown) => {
      if (demo.exitCode !== null) throw new Error(`it ended before: ${said}`, { cause: error });
    });
    const { now } = ((await asked?.json().catch(() => ({}))) ?? {}) as Partial<Overview>;
    return now !== undefined && now.pending.count + now.ready.count + now.running.count > 0;
  });
  const [code] = (await ended) as [number];
  if (code !== 0) throw new Error(said.split('\n').toReversed().join('\n'));
  expect(said).toMatch(/^lost +0$/m);
});

test('npm run demo -- --installations 3 moves a tenant, kills a database, and loses nothing', async () => {
  const [, ...args] = (manifest.scripts['demo:run'] ?? '').split(' ');
  const demo = spawn(process.execPath, [...args, '--installations', '3'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void (demo.exitCode === null && demo.kill()));
  let said = '';
  for (const stream of [demo.stdout, demo.stderr])
    stream.on('data', (part: Buffer) => (said += part.toString()));
  const [code] = (await once(demo, 'exit')) as [number];
  if (code !== 0) throw new Error(said);
  expect(said).toMatch(/^lost +0$/m);
  expect(said).toMatch(/acme moved from (db-\d) to db-\d .*\n(?:.*\n)* +kill -9 \1:/);
  expect(said).toMatch(/^limit excess +0$/m);
});
