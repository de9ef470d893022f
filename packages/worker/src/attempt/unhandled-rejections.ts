import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import type { Attempt } from './attempt.ts';

/**
 * Rejections that nobody handles, told apart by whose handler they come from. Node ends the process for each of them; here that would
 * take every job of the node with it.
 */
export interface Floating {
  /** From then on this process listens. */
  readonly open: () => void;
  /** Runs a handler, so that what floats out of it is known to be its. */
  readonly run: RunFloating;
  /** The same for many handlers one after another, from here: each costs half as much. */
  readonly inTurn: () => RunFloating;
  readonly close: () => void;
}

type RunFloating = <Arguments extends readonly unknown[], Returned>(
  source: Source,
  run: (...given: Arguments) => Returned,
  ...given: Arguments
) => Returned;

const shared: { storage: AsyncLocalStorage<Source> | undefined; users: number } = {
  storage: undefined,
  users: 0,
};

/** @param mode `crash`: leaves it to Node, as before */
export function createFloating(mode: 'fail' | 'crash'): Floating {
  if (mode === 'crash') {
    const run: RunFloating = (_source, handler, ...given) => handler(...given);
    return { open: () => {}, run, inTurn: () => run, close: () => {} };
  }
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
    run: (source, run, ...given) => storage.run(source, run, ...given),
    inTurn: () => inTurn(storage),
    close: () => count(-1),
  };
}

/** `storage.run` makes a context to go into, and another one to come back to; here that is the one that a resource has kept. */
function inTurn(storage: AsyncLocalStorage<Source>): RunFloating {
  const here = new AsyncResource('pgqueue.batch');
  const enter = <Arguments extends readonly unknown[], Returned>(
    source: Source,
    run: (...given: Arguments) => Returned,
    ...given: Arguments
  ): Returned => {
    storage.enterWith(source);
    return run(...given);
  };
  return (source, run, ...given) =>
    here.runInAsyncScope(enter<typeof given, ReturnType<typeof run>>, undefined, source, run, ...given);
}

/** Whose code it is: what they still have of rejections when their handler returns is the error that they end with. */
type Source = Attempt | readonly Attempt[];

function attemptsOf(source: Source): readonly Attempt[] {
  return 'job' in source ? [source] : source;
}

function onRejection(error: unknown, promise: Promise<unknown>): void {
  const source = shared.storage?.getStore();
  if (source !== undefined) {
    sources.set(promise, source);
    for (const attempt of attemptsOf(source)) attempt.rejected(promise, error);
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
  for (const attempt of attemptsOf(sources.get(promise) ?? [])) attempt.handled(promise);
}

/** The process was started with `--unhandled-rejections=warn`, or the like. */
function isTolerated(): boolean {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ');
  return /--unhandled-rejections[= ](?:none|warn)/.test(flags);
}
