import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openDatabase } from '@pgqueue/postgres/internal';
import { exportAudit, installAudit } from '../chaos/audit.ts';
import { check, problemsOf } from '../chaos/checker/check.ts';
import { readHistory } from '../chaos/checker/read.ts';
import { openHistory } from '../chaos/record.ts';
import type { Bug } from './bugs.ts';
import { seed } from './sql.ts';

/** In these scenarios nothing happens that would explain that a job begins twice. */
const quiet: ReadonlySet<string> = new Set(['shutdown', 'limited']);

/** Runs a scenario on an empty database, and has the checker of the chaos bench judge its history; empty: it is good. */
export async function judge(url: string, scenario: string, bug?: Bug): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'pgqueue-seeded-'));
  try {
    await installAudit(url);
    if (bug !== undefined) await make(url, bug);
    const write = openHistory(folder, 'judge');
    const program = fileURLToPath(new URL('process.ts', import.meta.url));
    const child = spawn(process.execPath, ['--conditions=@pgqueue/source', program], {
      env: {
        ...process.env,
        PGQUEUE_TEST_URL: url,
        PGQUEUE_TEST_NAME: 'stage',
        PGQUEUE_TEST_OPTIONS: JSON.stringify({ folder, scenario, bug: bug?.name }),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const deadline = setTimeout(() => child.kill('SIGKILL'), 240_000);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(deadline);
    // a bug that could not be made is none that was caught
    if (/does not contain|was never loaded/.test(said)) throw new Error(said);
    if (code !== 0) write({ type: 'down', node: 'stage', why: said.slice(0, 500), expected: false });
    await exportAudit(url, write);
    const verdict = check(await readHistory(folder));
    const again = quiet.has(scenario) ? Object.keys(verdict.duplicates.explained) : [];
    return [...problemsOf(verdict), ...again.map((reason) => `began again for no reason: ${reason}`)];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function make(url: string, { sql = [], before }: Bug): Promise<void> {
  const database = openDatabase({ connectionString: url });
  try {
    if (before !== undefined) await database.query(before, []);
    for (const one of sql) await seed(database, one);
  } finally {
    await database.close();
  }
}
