import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import type { JobContext } from '@pgqueue/core';
import { giveUp, snooze } from '@pgqueue/core';
import { parseDuration, quietly, within } from '@pgqueue/core/internal';
import { Alarm } from '../lease/alarm.ts';
import type { Command } from './command.ts';
import { createLines } from './lines.ts';
import { guardGroup, readyGuard } from './group-guard.ts';

/** Exit codes with a meaning of their own, from sysexits.h: EX_DATAERR and EX_TEMPFAIL. */
const codes = { giveUp: 65, snooze: 75 } as const;
/** Longest wait for the rest of the output after the process has ended and its group was killed. */
const restMs = 1_000;

type Context = Pick<JobContext, 'job' | 'signal' | 'log'>;

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Bytes on stdout; undefined: more than are allowed. */
  readonly output: Buffer | undefined;
  /** Last characters on stderr. */
  readonly said: string;
}

/** Runs a command for one attempt; resolves to its result or outcome. */
export async function runExecutable(command: Command, payload: unknown, context: Context): Promise<unknown> {
  const { signal, log } = context;
  signal.throwIfAborted();
  // both may throw (a schema made a BigInt of the payload), and nobody would end a program that has begun
  const input = JSON.stringify(payload ?? null);
  readyGuard();
  const child = spawn(command.file, command.args, {
    cwd: command.cwd,
    env: environmentOf(command, context),
    detached: true, // a process group of its own
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = await endOf(child, { command, signal, log, input });
  // a program that was told to end, and does so silently, has not done its work
  if (signal.aborted && (ended.code !== 0 || ended.output?.length === 0)) throw signal.reason;
  return outcomeOf(command, ended);
}

async function endOf(
  child: ChildProcessWithoutNullStreams,
  {
    command,
    signal,
    log,
    input,
  }: Pick<Context, 'signal' | 'log'> & { readonly command: Command; readonly input: string },
): Promise<Ended> {
  const { pid } = child;
  if (pid === undefined) {
    const [error] = (await once(child, 'error')) as [Error];
    throw new Error(`${command.name} could not be started: ${error.message}`, { cause: error });
  }
  const guard = guardGroup(pid);
  const chunks: Buffer[] = [];
  let bytes = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= command.outputMaxBytes) chunks.push(chunk);
    else guard.kill('SIGKILL');
  });
  const lines = createLines((line) => quietly(() => log.info({ stream: 'stderr' }, line)));
  child.stderr.on('data', (chunk: Buffer) => lines.add(chunk));
  child.stdin.on('error', () => {}); // it may end without reading its payload
  child.stdin.end(input);

  const alarm = new Alarm(() => guard.kill('SIGKILL'));
  const abort = (): void => {
    guard.kill('SIGTERM');
    alarm.set(command.graceMs);
  };
  signal.addEventListener('abort', abort, { once: true });
  const closed = once(child, 'close');
  try {
    const [code, by] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    guard.end(); // what it has left behind would go on beside the next attempt
    // a process that has left the group may hold the pipes
    if (!(await within(restMs, closed))) for (const stream of child.stdio) stream?.destroy();
    lines.end();
    const output = bytes > command.outputMaxBytes ? undefined : Buffer.concat(chunks);
    return { code, signal: by, output, said: lines.tail() };
  } finally {
    guard.end();
    alarm.clear();
    signal.removeEventListener('abort', abort);
  }
}

function outcomeOf(
  { name, outputMaxBytes, snoozeMs }: Command,
  { code, signal, output, said }: Ended,
): unknown {
  if (output === undefined) throw new Error(`${name} wrote more than ${outputMaxBytes} bytes on stdout`);
  const because = said === '' ? '' : `: ${said}`;
  if (code === null) throw new Error(`${name} was ended by ${signal ?? 'a signal'}${because}`);
  if (code === codes.giveUp) return giveUp(new Error(`${name} gave up${because}`));
  const text = textOf(name, output);
  if (code === codes.snooze) {
    const delayMs = text === '' ? snoozeMs : parseDuration(/^\d+$/.test(text) ? Number(text) : text);
    if (delayMs !== undefined) return snooze(delayMs);
    throw new Error(`${name} exited with 75, and wrote no delay such as 5m on stdout: ${start(text)}`);
  }
  if (code !== 0) throw new Error(`${name} exited with ${code}${because}`);
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`${name} wrote no JSON on stdout (what is no result belongs on stderr): ${start(text)}`, {
      cause: error,
    });
  }
}

function textOf(name: string, output: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(output).trim();
  } catch (error) {
    throw new Error(`${name} wrote bytes on stdout that are no UTF-8`, { cause: error });
  }
}

const start = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);

const passed = ['PATH', 'HOME', 'LANG', 'TZ'];

function environmentOf(
  { env }: Command,
  { job }: Pick<Context, 'job'>,
): Readonly<Record<string, string | undefined>> {
  const own = Object.entries(env).map(([name, value]) => [name, value === true ? process.env[name] : value]);
  return {
    ...Object.fromEntries(passed.map((name) => [name, process.env[name]])),
    ...(Object.fromEntries(own) as Readonly<Record<string, string>>),
    PGQUEUE_JOB_ID: job.id,
    PGQUEUE_TASK: job.task,
    PGQUEUE_QUEUE: job.queue,
    PGQUEUE_KEY: job.key,
    PGQUEUE_ATTEMPT: String(job.tries + 1),
    PGQUEUE_MAX_TRIES: String(job.maxTries),
    ...(job.trace === null ? {} : { TRACEPARENT: job.trace.traceparent, TRACESTATE: job.trace.tracestate }),
  };
}
