import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Block, Use } from './blocks.ts';
import { useOf } from './blocks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const stepMs = 120_000;

/** One document on the stage: a folder for its files, a database of its own, and the processes that it started. */
export interface DocumentRun {
  /** Does what a block says; throws when it fails, or prints other than the document says. */
  readonly step: (block: Block) => Promise<void>;
  readonly folder: string;
  readonly stop: () => Promise<void>;
}

interface Ended {
  readonly output: string;
  readonly code: number | null;
}

interface Background {
  readonly child: ChildProcess;
  readonly said: () => string;
}

export function runDocument(name: string, databaseUrl: string): DocumentRun {
  const folder = join(root, 'test/docs/scratch', name.replaceAll(/[^a-z0-9]+/gi, '-'));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  const cli = join(root, 'packages/cli/src/main.ts');
  writeFileSync(
    join(folder, 'bin/pgqueue'),
    `#!/bin/sh\nexec node --conditions=@pgqueue/source ${cli} "$@"\n`,
  );
  chmodSync(join(folder, 'bin/pgqueue'), 0o755);
  const env = {
    ...process.env,
    DATABASE_URL: databaseUrl,
    PGQUEUE_DATABASE_URL: databaseUrl,
    NODE_OPTIONS: '--conditions=@pgqueue/source',
    PYTHONPATH: join(root, 'clients/python'),
    PYTHONDONTWRITEBYTECODE: '1',
    PATH: `${folder}/bin:${root}/node_modules/.bin:${process.env['PATH'] ?? ''}`,
  };
  const running: Background[] = [];
  let last: Ended = { output: '', code: 0 };

  const start = (command: string, args: readonly string[]): ChildProcess =>
    spawn(command, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });

  const act = async (use: Use, block: Block): Promise<void> => {
    const command = commandOf(use, block);
    if (use.kind === 'file') writeFileSync(join(folder, use.name), block.text);
    if (command === undefined) return;
    const child = start(command[0] ?? '', command.slice(1));
    if ('background' in use && use.background) {
      running.push(await firstOutput(child));
      return;
    }
    last = await ended(child);
    if (last.code !== 0) throw new Error(`line ${block.line}: ended with ${last.code}:\n${last.output}`);
  };

  return {
    folder,
    step: async (block) => {
      for (const { child, said } of running) {
        if (child.exitCode !== null && child.exitCode !== 0)
          throw new Error(`a process in the background ended with ${child.exitCode}:\n${said()}`);
      }
      const use = useOf(block);
      if (use.kind === 'output') expectOutput(block, last.output);
      else await act(use, block);
    },
    stop: async () => {
      await Promise.all(running.map(({ child }) => stopGroup(child)));
    },
  };
}

function commandOf(use: Use, { text }: Block): readonly string[] | undefined {
  if (use.kind === 'file') {
    if (!use.run) return undefined;
    return use.name.endsWith('.py') ? ['/usr/bin/python3', use.name] : ['node', use.name];
  }
  if (use.kind === 'shell') return ['bash', '-euo', 'pipefail', '-c', text];
  if (use.kind === 'sql') return ['bash', '-c', 'psql -v ON_ERROR_STOP=1 -d "$DATABASE_URL" <<< "$0"', text];
  if (use.kind === 'python') return ['/usr/bin/python3', '-c', text];
  return undefined;
}

/** Every line of the document's output block is in what the last step printed, in that order; `…` stands for anything. */
function expectOutput({ text, line }: Block, output: string): void {
  const lines = text.split('\n').filter((expected) => expected.trim() !== '');
  const pattern = lines
    .map((expected) =>
      expected
        .trim()
        .split('…')
        .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
        .join('.*'),
    )
    .join(String.raw`[\s\S]*`);
  if (!new RegExp(pattern).test(output))
    throw new Error(`line ${line}: expected\n${text}\nbut the block above printed\n${output}`);
}

async function ended(child: ChildProcess): Promise<Ended> {
  let output = '';
  child.stdout?.on('data', (data: Buffer) => (output += data.toString()));
  child.stderr?.on('data', (data: Buffer) => (output += data.toString()));
  return new Promise((resolve, reject) => {
    const deadline = setTimeout(() => {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      reject(new Error(`not done after ${stepMs} ms:\n${output}`));
    }, stepMs);
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(deadline);
      resolve({ output, code });
    });
  });
}

/** A process in the background is on its way when it has said something. */
async function firstOutput(child: ChildProcess): Promise<Background> {
  let output = '';
  await new Promise<void>((resolve, reject) => {
    const deadline = setTimeout(() => reject(new Error('it said nothing')), stepMs);
    const said = (data: Buffer): void => {
      output += data.toString();
      clearTimeout(deadline);
      resolve();
    };
    child.stdout?.on('data', said);
    child.stderr?.on('data', said);
    child.on('exit', (code) => {
      clearTimeout(deadline);
      reject(new Error(`it ended with ${code}: ${output}`));
    });
  });
  return { child, said: () => output };
}

async function stopGroup(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const { pid } = child;
  const gone = new Promise((resolve) => child.once('close', resolve));
  process.kill(-pid, 'SIGTERM');
  const deadline = setTimeout(() => process.kill(-pid, 'SIGKILL'), 8_000);
  await gone;
  clearTimeout(deadline);
}
