import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { runCli } from '../../packages/cli/src/program.ts';
import { until } from './until.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
export const cliMain = fileURLToPath(new URL('../../packages/cli/src/main.ts', import.meta.url));

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command as a child process that is still running. */
export interface CliProcess {
  readonly process: ChildProcess;
  readonly output: () => CliResult;
  /** Resolves when stdout holds the text. */
  readonly says: (text: string, timeoutMs?: number) => Promise<void>;
  readonly ended: Promise<CliResult>;
}

/** Output of all commands, searched for secrets that it must never contain. */
export const everythingSaid: string[] = [];

/** Starts `pgqueue <args>` from source. Its environment has no database except the given one. */
export function startCli(args: readonly string[], { env = {}, cwd = root }: CliOptions = {}): CliProcess {
  const { PGQUEUE_DATABASE_URL: _own, DATABASE_URL: _usual, ...rest } = process.env;
  const child = spawn(process.execPath, ['--conditions=@pgqueue/source', cliMain, ...args], {
    cwd,
    env: { ...rest, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  const output = (): CliResult => ({ code: child.exitCode, stdout, stderr });
  const ended = new Promise<CliResult>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      everythingSaid.push(stdout, stderr);
      resolve({ code, stdout, stderr });
    });
  });
  return {
    process: child,
    output,
    ended,
    says: async (text, timeoutMs) => {
      const said = (): boolean => {
        if (child.exitCode !== null && !stdout.includes(text))
          throw new Error(`it ended with ${child.exitCode}: ${stdout}${stderr}`);
        return stdout.includes(text);
      };
      await until(`"${text}" from pgqueue ${args.join(' ')}`, said, timeoutMs);
    },
  };
}

export function cli(args: readonly string[], options?: CliOptions): Promise<CliResult> {
  return startCli(args, options).ended;
}

/**
 * Runs the command line within this process, for tests of parsing: a child process would mostly spend its
 * time starting.
 */
export async function parseCli(args: readonly string[]): Promise<CliResult> {
  const said = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((chunk) => {
      said[name] += String(chunk);
      return true;
    }),
  );
  try {
    const code = await runCli(args);
    return { code, ...said };
  } finally {
    for (const spy of spies) spy.mockRestore();
    everythingSaid.push(said.stdout, said.stderr);
  }
}

export interface BoundCli {
  readonly pgqueue: (...args: readonly string[]) => Promise<CliResult>;
  /** Runs a command that only reads, twice: for its text, and for its JSON. */
  readonly ask: (...args: readonly string[]) => Promise<{
    readonly code: number | null;
    readonly text: string;
    readonly json: ReturnType<typeof JSON.parse>;
  }>;
}

/** The command with PGQUEUE_DATABASE_URL set. */
export function cliOf(url: () => string): BoundCli {
  const pgqueue: BoundCli['pgqueue'] = (...args) => cli(args, { env: { PGQUEUE_DATABASE_URL: url() } });
  return {
    pgqueue,
    ask: async (...args) => {
      const [human, machine] = await Promise.all([pgqueue(...args), pgqueue(...args, '--json')]);
      if (human.code !== machine.code || human.stderr !== '')
        throw new Error(`${args.join(' ')}: ${JSON.stringify([human, machine])}`);
      return { code: human.code, text: human.stdout, json: JSON.parse(machine.stdout) };
    },
  };
}
