import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../bench/src/report/report.ts';

const works = [
  'drain',
  'sustain',
  'latency',
  'enqueue',
  'backlog',
  'pinned',
  'fair',
  'keys',
  'handlers',
  'flows',
  'idle',
];
const command = fileURLToPath(new URL('../../scripts/bench.mjs', import.meta.url));

let folder: string;
let file: string;
let report: Report;
let said: string;
let code: number | null;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pgqueue-bench-smoke-'));
  file = join(folder, 'report.json');
  ({ code, said } = await bench('--smoke', '--json', file, '--html', join(folder, 'report.html')));
  report = JSON.parse(readFileSync(file, 'utf8')) as Report;
}, 900_000);

async function bench(
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly said: string }> {
  const running = spawn(process.execPath, [command, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  running.stderr.on('data', (more: Buffer) => {
    text += more.toString();
  });
  const [exited] = (await once(running, 'exit')) as [number | null];
  return { code: exited, said: text };
}

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** No figure of it is looked at: they say nothing on a machine that does something else. */
describe('every work of the benchmark, small', () => {
  test('ends well', () => {
    expect({ code, said }).toMatchObject({ code: 0 });
  });

  test.each(works)('%s: every job ran once, and none is left', (work) => {
    const runs = report.runs.filter((run) => run.work === work);
    expect(runs.map(({ peer }) => peer)).toContain('pgqueue');
    expect(runs.flatMap(({ faults }) => faults)).toEqual([]);
    for (const { metrics } of runs) expect(Object.keys(metrics).length).toBeGreaterThan(2);
  });

  test.each(['sustain', 'pinned'])('%s: how long claims take is seen', (work) => {
    const run = report.runs.find(({ work: of, peer }) => of === work && peer === 'pgqueue');
    expect(run?.metrics['claimEarly']).toBeGreaterThan(0);
    expect(run?.metrics['claimLate']).toBeGreaterThan(0);
  });

  test('the report is a page', () => {
    expect(readFileSync(join(folder, 'report.html'), 'utf8')).toMatch(/^<!doctype html>[^]*<\/html>\n$/);
  });

  test('what is there is not measured again, and stays', async () => {
    const again = await bench('--smoke', '--json', file, '--resume');
    expect(again).toMatchObject({
      code: 0,
      said: expect.stringMatching(/^(\d+) of \1 runs are there already/),
    });
    expect((JSON.parse(readFileSync(file, 'utf8')) as Report).runs).toEqual(report.runs);
  });

  test('the short plan names peers and settings that there are', async () => {
    expect(await bench('--plan', 'short', '--list')).toMatchObject({ code: 0, said: '' });
  });
});
