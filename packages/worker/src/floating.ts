import { AsyncLocalStorage } from 'node:async_hooks';
import type { Observer } from '@pgqueue/core';
import type { Attempt } from './attempt.ts';

/**
 * Rejections that nobody handles, told apart by whose handler they come from. Node ends the process for each of them; here that would
 * take every job of the node with it.
 */
export interface Floating {
  /** From then on this process listens. */
  readonly open: () => void;
  /** Runs a handler, so that what floats out of it is known to be its. */
  readonly run: <Returned>(attempts: readonly Attempt[], run: () => Returned) => Returned;
  readonly close: () => void;
}

/** Who hears of a rejection: the attempts that its code was run for. */
interface Source {
  readonly rejected: (promise: Promise<unknown>, error: unknown) => void;
  /** It was handled after all. */
  readonly handled: (promise: Promise<unknown>) => void;
}

const shared: { storage: AsyncLocalStorage<Source> | undefined; users: number } = {
  storage: undefined,
  users: 0,
};

/** @param mode `crash`: leaves it to Node, as before */
export function createFloating(mode: 'fail' | 'crash', observe: Observer): Floating {
  if (mode === 'crash') return { open: () => {}, run: (_attempts, run) => run(), close: () => {} };
  const storage = (shared.storage ??= new AsyncLocalStorage<Source>());
  let open = false;
  const count = (by: 1 | -1): void => {
    if (open === by > 0) return;
    open = by > 0;
    shared.users += by;
    if (shared.users !== Math.max(0, by)) return;
    const listen = by > 0 ? 'on' : 'off';
    process[listen]('unhandledRejection', onRejection);
    process[listen]('rejectionHandled', onHandled);
  };
  return {
    open: () => count(1),
    run: (attempts, run) => storage.run(new Handlers(attempts, observe), run),
    close: () => count(-1),
  };
}

/** What an attempt still has of them when its handler returns is the error that it ends with. */
class Handlers implements Source {
  readonly #attempts: readonly Attempt[];
  readonly #observe: Observer;

  constructor(attempts: readonly Attempt[], observe: Observer) {
    this.#attempts = attempts;
    this.#observe = observe;
  }

  rejected(promise: Promise<unknown>, error: unknown): void {
    for (const attempt of this.#attempts) {
      const counted = !attempt.over;
      if (counted) attempt.floating.set(promise, error);
      const { id: job, task } = attempt.job;
      this.#observe({ type: 'job.floating', job, task, error, counted });
    }
  }

  handled(promise: Promise<unknown>): void {
    for (const attempt of this.#attempts) attempt.floating.delete(promise);
  }
}

function onRejection(error: unknown, promise: Promise<unknown>): void {
  const source = shared.storage?.getStore();
  if (source !== undefined) {
    sources.set(promise, source);
    source.rejected(promise, error);
    return;
  }
  if (process.listenerCount('unhandledRejection') > 1 || isTolerated()) return;
  // nobody else listens: without this listener, Node would end the process
  throw error instanceof Error
    ? error
    : new Error(`a promise was rejected, and nobody handled it: ${String(error)}`);
}

/** Node tells of rejections that were handled after all when nothing else is left to do at once. */
export function rejectionsTold(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** By whom it is handled says nothing of whose it is. */
const sources = new WeakMap<Promise<unknown>, Source>();

function onHandled(promise: Promise<unknown>): void {
  sources.get(promise)?.handled(promise);
}

/** The process was started with `--unhandled-rejections=warn`, or the like. */
function isTolerated(): boolean {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ');
  return /--unhandled-rejections[= ](?:none|warn)/.test(flags);
}
