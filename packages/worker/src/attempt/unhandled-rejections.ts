import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
// not the global, which a user's test may fake
import { setImmediate } from 'node:timers/promises';

/** Hears of the unhandled rejections of one attempt. */
export interface Rejections {
  /** Records a rejection that the handler left unhandled. */
  readonly rejected: (promise: unknown, error: unknown) => void;
  /** Removes a rejection that was handled after all. */
  readonly handled: (promise: unknown) => void;
}

/**
 * Attributes unhandled rejections to the handlers that they come from. Node would end the process for each of
 * them, and with it every job of the node: one forgotten `await` would charge up to 10,000 jobs with a crash.
 *
 * Such a job fails, since a part of its work has failed; the retry is what `await` would have brought. Errors
 * that are thrown in callbacks are left to Node: the code behind them has not run, and nobody knows what it
 * would have put right.
 */
export interface Floating {
  /**
   * Starts listening for rejections in this process, for good: a handler that has ended may have left behind what
   * rejects after its worker has stopped. All workers of the process share the listeners.
   */
  readonly open: () => void;
  /**
   * Returns a function that runs handlers, one after another, so that their unhandled rejections are
   * attributed to their attempts. Each runs in the asynchronous context of this call: what one enters
   * (`AsyncLocalStorage.enterWith`) reaches no other.
   */
  readonly inTurn: () => RunFloating;
}

type RunFloating = <Arguments extends readonly unknown[], Returned>(
  source: Source,
  run: (...given: Arguments) => Returned,
  ...given: Arguments
) => Returned;

const shared: { storage: AsyncLocalStorage<Source> | undefined; listens: boolean } = {
  storage: undefined,
  listens: false,
};

/** @param mode `crash`: leaves unhandled rejections to Node, which ends the process */
export function createFloating(mode: 'fail' | 'crash'): Floating {
  if (mode === 'crash') {
    return {
      open: () => {},
      inTurn: () => inTurn((_source, run, ...given) => run(...given)),
    };
  }
  const storage = (shared.storage ??= new AsyncLocalStorage<Source>());
  return {
    open: () => {
      if (shared.listens) return;
      shared.listens = true;
      process.on('unhandledRejection', onRejection);
      process.on('rejectionHandled', onHandled);
    },
    inTurn: () =>
      inTurn((source, run, ...given) => {
        storage.enterWith(source);
        return run(...given);
      }),
  };
}

/**
 * Keeps the context to return to in an AsyncResource. `storage.run` costs more, and returns to the former value
 * of its own storage alone.
 */
function inTurn(enter: RunFloating): RunFloating {
  const here = new AsyncResource('pgqueue.handlers');
  return (source, run, ...given) =>
    here.runInAsyncScope(enter<typeof given, ReturnType<typeof run>>, undefined, source, run, ...given);
}

/** Attempts whose code runs. They end with a rejection that is still unhandled when their handler returns. */
type Source = Rejections | readonly Rejections[];

function attemptsOf(source: Source): readonly Rejections[] {
  return 'rejected' in source ? [source] : source;
}

function onRejection(error: unknown, promise: Promise<unknown>): void {
  const source = shared.storage?.getStore();
  if (source !== undefined) {
    sources.set(promise, source);
    for (const attempt of attemptsOf(source)) attempt.rejected(promise, error);
    return;
  }
  if (process.listenerCount('unhandledRejection') > 1 || isTolerated()) return;
  // No other listener exists; without this one, Node would end the process.
  throw error instanceof Error
    ? error
    : new Error(`a promise was rejected, and nobody handled it: ${String(error)}`);
}

/**
 * Resolves after Node has reported rejections that were handled late, which it does once the microtask queue
 * is empty.
 */
export function rejectionsTold(): Promise<void> {
  return setImmediate();
}

/** Attempts by rejected promise: the code that handles a rejection may belong to another attempt. */
const sources = new WeakMap<Promise<unknown>, Source>();

function onHandled(promise: Promise<unknown>): void {
  for (const attempt of attemptsOf(sources.get(promise) ?? [])) attempt.handled(promise);
}

/** Reports whether the process was started with `--unhandled-rejections=warn` or `none`. */
function isTolerated(): boolean {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ');
  return /--unhandled-rejections[= ](?:none|warn)/.test(flags);
}
