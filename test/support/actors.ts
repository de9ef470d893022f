import { fork, spawn } from 'node:child_process';
import type { ChildProcess, StdioOptions } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Said } from './actors/messages.ts';
import { python } from './tools.ts';
import { until } from './until.ts';

/** An actor in a process of its own, which a test can freeze and kill. */
export interface Actor {
  readonly name: string;
  readonly process: ChildProcess;
  readonly heard: readonly Said[];
  /** False: it does not listen any more. */
  readonly tell: (what: string) => boolean;
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Stops it in order; kills it if it does not end within five seconds. */
  readonly stop: () => Promise<void>;
}

export interface ActorOptions {
  readonly url: string;
  readonly name: string;
  /**
   * Options of the process, which reads them as `actorOptions`. Without `file`, they are the options of the
   * scheduler or worker.
   */
  readonly options?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** Program to run, in TypeScript or Python. Default: the one of that kind in actors/. */
  readonly file?: URL;
  /** Options of Node. Default: those that run the packages from their source. */
  readonly execArgv?: readonly string[];
  /** File descriptor for its output. Default: the output of this process. */
  readonly output?: number;
}

/** A process, and how to talk with it. */
interface Started {
  readonly process: ChildProcess;
  readonly tell: (what: string) => boolean;
}

export async function startActor(
  kind: 'scheduler' | 'worker' | 'producer',
  options: ActorOptions,
): Promise<Actor> {
  const { name } = options;
  const heard: Said[] = [];
  const { file = new URL(`actors/${kind}.ts`, import.meta.url) } = options;
  const start = file.pathname.endsWith('.py') ? startPython : startNode;
  const { process: child, tell } = start(fileURLToPath(file), options, (said) => heard.push(said));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const actor: Actor = {
    name,
    process: child,
    heard,
    tell,
    signal: (signal) => void child.kill(signal),
    stop: async () => {
      child.kill('SIGCONT');
      tell('stop');
      const deadline = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await exited;
      clearTimeout(deadline);
    },
  };
  try {
    await until(
      `${name} to be ready`,
      () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`${name} ended with ${child.exitCode ?? child.signalCode}`);
        return heard.some(({ type }) => type === 'ready');
      },
      240_000, // many start at once, beside other tests
    );
  } catch (error) {
    child.kill('SIGKILL'); // the caller has no handle to end it
    throw error;
  }
  return actor;
}

function startNode(file: string, options: ActorOptions, hear: (said: Said) => void): Started {
  const { execArgv = [`--conditions=@pgqueue/source`], output = 'inherit' } = options;
  const stdio: StdioOptions = ['ignore', output, output, 'ipc'];
  const child = fork(file, [], { env: envOf(options), execArgv: [...execArgv], stdio });
  child.on('message', (message) => hear(message as Said));
  // its callback takes the error of a process that is killed right then
  return { process: child, tell: (what) => child.connected && child.send(what, () => {}) };
}

/** Starts a program in Python, which hears lines of its standard input, and says lines of JSON. */
function startPython(file: string, options: ActorOptions, hear: (said: Said) => void): Started {
  const child = spawn(python, [file], {
    env: { ...envOf(options), PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['pipe', 'pipe', options.output ?? 'inherit'],
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('a process was started without its pipes');
  stdin.on('error', () => {}); // it has ended, which `exit` tells
  createInterface({ input: stdout }).on('line', (line) => hear(JSON.parse(line) as Said));
  return {
    process: child,
    tell: (what) => {
      const listens = child.exitCode === null && child.signalCode === null && stdin.writable;
      if (listens) stdin.write(`${what}\n`);
      return listens;
    },
  };
}

function envOf({ url, name, env, options = {} }: ActorOptions): NodeJS.ProcessEnv {
  return {
    ...process.env,
    ...env,
    PGQUEUE_TEST_URL: url,
    PGQUEUE_TEST_NAME: name,
    PGQUEUE_TEST_OPTIONS: JSON.stringify(options),
  };
}
