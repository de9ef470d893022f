import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Actor {
  readonly name: string;
  readonly process: ChildProcess;
  /** The detail of its message `ready`. */
  readonly detail: string;
}

export interface Stage {
  readonly start: (file: string, name: string, env: Readonly<Record<string, string>>) => Promise<Actor>;
  /** Starts a process without waiting until it is ready: for one that ends by itself. */
  readonly run: (file: string, name: string, env: Readonly<Record<string, string>>) => Actor;
  readonly stop: (actor: Actor) => Promise<void>;
  readonly stopAll: () => Promise<void>;
}

/**
 * Starts and ends a demo's processes; every message of any of them goes to `hear`. A process says that it is ready by
 * a message of the kind `ready`, perhaps with a `detail`.
 * @param beside URL of a file in the folder of the programs
 */
export function createStage(beside: string, hear: (name: string, message: unknown) => void): Stage {
  const actors = new Set<Actor>();

  const run: Stage['run'] = (file, name, env) => {
    const child = fork(fileURLToPath(new URL(file, beside)), [], {
      env: { ...process.env, ...env, DEMO_NAME: name },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const actor: Actor = { name, process: child, detail: '' };
    actors.add(actor);
    child.on('message', (message) => hear(name, message));
    child.on('exit', () => actors.delete(actor));
    return actor;
  };

  const start: Stage['start'] = async (file, name, env) => {
    const actor = run(file, name, env);
    const detail = await new Promise<string>((resolve, reject) => {
      actor.process.on('message', (message) => {
        const { kind, detail = '' } = message as { readonly kind: string; readonly detail?: string };
        if (kind === 'ready') resolve(detail);
      });
      actor.process.on('exit', (code) => reject(new Error(`${name} ended with ${code} before it was ready`)));
    });
    return Object.assign(actor, { detail });
  };

  const stop: Stage['stop'] = async ({ process: child }) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const deadline = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(deadline);
  };

  process.on('exit', () => {
    for (const actor of actors) actor.process.kill('SIGKILL');
  });
  return { run, start, stop, stopAll: async () => void (await Promise.all([...actors].map(stop))) };
}
