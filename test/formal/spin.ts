import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One model with some definitions, and its expected result. */
export interface Variant {
  readonly model: 'lease' | 'leader' | 'transaction';
  /** Preprocessor definitions: `NAME` or `NAME=1`. */
  readonly defines: readonly string[];
  /**
   * Expected result. `assertion`: some state breaks an assertion; `cycle`: the job may wait for ever although
   * every process keeps running.
   */
  readonly expect: 'holds' | 'assertion' | 'cycle';
}

export interface Explored {
  readonly verdict: Variant['expect'];
  /** Number of distinct states; the sum of both searches if the model holds. */
  readonly states: number;
}

/** Options of the two searches. Safety: every state; progress: every cycle under weak fairness. */
const searches = {
  safety: {
    compile: ['-DSAFETY', '-DNOCLAIM'],
    run: ['-m1000000', '-E'],
  },
  progress: {
    compile: ['-DNFAIR=5'],
    run: ['-m1000000', '-a', '-f', '-E'],
  },
} as const;

const timeoutMs = 600_000;

/**
 * Generates a checker of the variant by Spin, and runs it: for every state, then for every fair cycle. Stops
 * at the first error.
 */
export async function explore({ model, defines, expect }: Variant): Promise<Explored> {
  const folder = await mkdtemp(join(tmpdir(), 'pgqueue-spin-'));
  const tool = async (command: string, args: readonly string[]): Promise<string> =>
    (await run(command, [...args], { cwd: folder, timeout: timeoutMs, maxBuffer: 1 << 26 })).stdout;
  try {
    const source = fileURLToPath(new URL(`${model}.pml`, import.meta.url));
    await tool('spin', [...defines.map((name) => `-D${name}`), '-a', source]);
    let states = 0;
    for (const kind of expect === 'cycle' ? (['progress'] as const) : (['safety', 'progress'] as const)) {
      const search = searches[kind];
      await tool('gcc', [
        kind === 'safety' ? '-O0' : '-O1',
        '-w',
        '-DCOLLAPSE',
        ...search.compile,
        '-o',
        kind,
        'pan.c',
      ]);
      const said = await tool(join(folder, kind), search.run);
      states += statesOf(said);
      const verdict = verdictOf(said);
      if (verdict !== 'holds') return { verdict, states };
    }
    return { verdict: 'holds', states };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function statesOf(said: string): number {
  const found = /^\s*([\d.e+]+) states, stored/m.exec(said)?.[1];
  if (found === undefined) throw new Error(`no number of states in:\n${said}`);
  return Number(found);
}

function verdictOf(said: string): Explored['verdict'] {
  if (/max search depth too small|out of memory/.test(said))
    throw new Error(`it was not searched whole:\n${said}`);
  if (said.includes('assertion violated')) return 'assertion';
  if (said.includes('acceptance cycle')) return 'cycle';
  if (/errors: 0\b/.test(said)) return 'holds';
  throw new Error(`neither an error nor none:\n${said}`);
}
