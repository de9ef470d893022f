import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Message } from './messages.ts';

export interface Processes {
  /** Starts a process of one of the files beside this one. Resolves when it is ready. */
  readonly start: (file: string, name: string, ...args: readonly string[]) => Promise<void>;
  readonly stopAll: () => Promise<void>;
}

/** Starts and ends processes; every message of any of them goes to `hear`. */
export function createProcesses(
  env: Readonly<Record<string, string>>,
  hear: (message: Message) => void,
): Processes {
  const children = new Set<ChildProcess>();
  process.on('exit', () => {
    for (const child of children) child.kill('SIGKILL');
  });
  return {
    start: async (file, name, ...args) => {
      const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, {
        env: { ...process.env, ...env, DEMO_NAME: name },
      });
      children.add(child);
      child.on('exit', () => children.delete(child));
      child.on('message', (message) => hear(message as Message));
      await new Promise<void>((resolve, reject) => {
        child.on('message', (message) => (message as Message).kind === 'ready' && resolve());
        child.on('exit', (code) => reject(new Error(`${name} ended with ${code} before it was ready`)));
      });
    },
    stopAll: async () => {
      await Promise.all(
        [...children].map(async (child) => {
          const ended = once(child, 'exit');
          child.kill('SIGTERM');
          const deadline = setTimeout(() => child.kill('SIGKILL'), 10_000);
          await ended;
          clearTimeout(deadline);
        }),
      );
    },
  };
}
