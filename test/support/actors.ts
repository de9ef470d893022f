import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Said } from './actors/messages.ts';
import { until } from './until.ts';

/** An actor in a process of its own, which a test can freeze and kill. */
export interface Actor {
  readonly name: string;
  readonly process: ChildProcess;
  readonly heard: readonly Said[];
  readonly tell: (word: 'stop' | 'finish') => void;
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
  /** Program to run. Default: the one of that kind in actors/. */
  readonly file?: URL;
  /** Options of Node. Default: those that run the packages from their source. */
  readonly execArgv?: readonly string[];
  /** File descriptor for its output. Default: the output of this process. */
  readonly output?: number;
}

export async function startActor(
  kind: 'scheduler' | 'worker' | 'producer',
  options: ActorOptions,
): Promise<Actor> {
  const { url, name } = options;
  const {
    file = new URL(`actors/${kind}.ts`, import.meta.url),
    execArgv = [`--conditions=@pgqueue/source`],
    output = 'inherit',
  } = options;
  const child = fork(fileURLToPath(file), [], {
    env: {
      ...process.env,
      ...options.env,
      PGQUEUE_TEST_URL: url,
      PGQUEUE_TEST_NAME: name,
      PGQUEUE_TEST_OPTIONS: JSON.stringify(options.options ?? {}),
    },
    execArgv: [...execArgv],
    stdio: ['ignore', output, output, 'ipc'],
  });
  const heard: Said[] = [];
  child.on('message', (message) => heard.push(message as Said));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const actor: Actor = {
    name,
    process: child,
    heard,
    tell: (word) => void (child.connected && child.send(word)),
    signal: (signal) => void child.kill(signal),
    stop: async () => {
      child.kill('SIGCONT');
      if (child.connected) child.send('stop');
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
