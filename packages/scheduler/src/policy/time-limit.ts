import { inspect, types } from 'node:util';
import type { Context, Script } from 'node:vm';
import vm from 'node:vm';

/** Result of a call into user code. */
export type TimedResult<Value> =
  | { readonly kind: 'done'; readonly value: Value }
  | { readonly kind: 'failed'; readonly error: Error }
  /** `late`: the value of a call that ended, but after its time. */
  | { readonly kind: 'overran'; readonly late?: Value };

interface Door {
  readonly context: Context;
  readonly script: Script;
}

let door: Door | undefined;
let work: (() => void) | undefined;

/**
 * Runs synchronous user code for up to `limitMs`. V8 can terminate any JavaScript that runs below a script to
 * which `node:vm` gave a timeout, including functions of other contexts; neither `catch` nor `finally` in the
 * terminated code sees it. Measured: 60 µs a call, nothing per instruction; terminated within 2 ms, also in
 * regular expressions, sorts, `JSON.stringify` and `Atomics.wait`. It can't terminate a single call of native
 * code (a search through a huge string, synchronous I/O), nor what the code leaves for later (timers, promise
 * callbacks).
 *
 * The caller must not share state with `run` that must never be left half-changed.
 */
export function runWithin<Value>(limitMs: number, run: () => Value): TimedResult<Value> {
  let ran: TimedResult<Value> | undefined;
  const outer = work;
  work = (): void => {
    ran = runFree(run);
  };
  try {
    door ??= openDoor();
    door.script.runInContext(door.context, { timeout: limitMs, displayErrors: false });
  } catch (error) {
    // errors thrown by `run` are caught above, so this is the timeout or a stack overflow
    if ((error as { readonly code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      return ran?.kind === 'done' ? { kind: 'overran', late: ran.value } : { kind: 'overran' };
    return { kind: 'failed', error: asError(error) };
  } finally {
    work = outer;
  }
  return ran ?? { kind: 'overran' };
}

/** Runs code without a time limit. */
export function runFree<Value>(run: () => Value): TimedResult<Value> {
  try {
    return { kind: 'done', value: run() };
  } catch (thrown) {
    return { kind: 'failed', error: asError(thrown) };
  }
}

function openDoor(): Door {
  return {
    context: vm.createContext({ call: () => work?.() }),
    script: new vm.Script('call()', { filename: 'pgqueue-budget.js' }),
  };
}

/**
 * Converts a thrown value to an Error. Code may throw anything: null, a string, an object that has no string
 * form.
 */
export function asError(thrown: unknown): Error {
  if (types.isNativeError(thrown) && typeof thrown.message === 'string') return thrown;
  const seen = inspect(thrown, { depth: 0, customInspect: false, maxStringLength: 200 });
  return new Error(`threw ${seen.slice(0, 300)}`);
}
