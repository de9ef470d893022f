import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, Hiring, Order, Progress, Role, Said } from './orders.ts';

/** A process started by the bench. */
export interface Actor {
  readonly role: Role;
  readonly pid: number;
  readonly progress: () => Progress;
  /** @throws the error answered by the process, or an Error if it has ended or did not answer in time */
  readonly tell: (order: Order, timeoutMs?: number) => Promise<Answer>;
  readonly end: () => Promise<void>;
}

export interface HireOptions extends Hiring {
  /** Folder for the CPU profile; undefined: none is written. */
  readonly profile: string | undefined;
  readonly scratch: string;
}

const answerMs = 600_000;
const endMs = 10_000;
const textMax = 8_000;
const file = fileURLToPath(
  new URL(`./actor${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
);

/** Starts a process; resolves once it has loaded its peer. */
export async function hire({ role, peer, place, profile, scratch }: HireOptions): Promise<Actor> {
  const hiring: Hiring = { role, peer, place };
  const child = fork(file, [JSON.stringify(hiring)], {
    execArgv: [
      ...process.execArgv,
      ...(profile === undefined
        ? []
        : ['--cpu-prof', `--cpu-prof-dir=${profile}`, `--cpu-prof-name=${role}-${Date.now()}.cpuprofile`]),
    ],
    env: { ...process.env, PGQUEUE_BENCH_SCRATCH: scratch },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const name = `${peer} ${role}`;
  let printed = '';
  child.stderr?.on('data', (text: Buffer) => {
    printed = (printed + text.toString()).slice(-textMax);
  });
  const asked = new Map<number, PromiseWithResolvers<Answer>>();
  let progress: Progress = { runs: 0, enqueued: 0, watched: 0, rss: 0, heap: 0 };
  let next = 0;
  const ready = Promise.withResolvers<void>();
  child.on('message', (said: Said) => {
    if ('progress' in said) {
      progress = said.progress;
      ready.resolve();
      return;
    }
    const waiting = asked.get(said.id);
    asked.delete(said.id);
    if ('answer' in said) waiting?.resolve(said.answer);
    else waiting?.reject(new Error(`${name}: ${said.error}`));
  });
  child.once('exit', (code, signal) => {
    const error = new Error(`${name} ended (${signal ?? code})${printed === '' ? '' : `:\n${printed}`}`);
    ready.reject(error);
    for (const waiting of asked.values()) waiting.reject(error);
  });
  await ready.promise;
  return {
    role,
    pid: child.pid ?? 0,
    progress: () => progress,
    tell: async (order, timeoutMs = answerMs) => {
      if (!child.connected) throw new Error(`${name} has ended${printed === '' ? '' : `:\n${printed}`}`);
      const id = next;
      next += 1;
      const answer = Promise.withResolvers<Answer>();
      asked.set(id, answer);
      const timer = setTimeout(
        () => answer.reject(new Error(`${name} did not answer "${order.kind}" in ${timeoutMs} ms`)),
        timeoutMs,
      );
      child.send({ id, order });
      return answer.promise.finally(() => clearTimeout(timer));
    },
    end: () => end(child),
  };
}

/** Disconnects first, so that the process can write its profile, and kills it after 10 s. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), endMs);
  if (child.connected) child.disconnect();
  await exited;
  clearTimeout(timer);
}
