import { inspect, types } from 'node:util';
import type { Context, Script } from 'node:vm';
import vm from 'node:vm';

/** What became of a call of user code. */
export type Ran<Value> =
  | { readonly kind: 'done'; readonly value: Value }
  | { readonly kind: 'failed'; readonly error: Error }
  | { readonly kind: 'overran' };

interface Door {
  readonly context: Context;
  readonly script: Script;
}

let door: Door | undefined;
let work: (() => void) | undefined;

/**
 * Runs synchronous user code, for `limitMs` at most. V8 can end whatever JavaScript runs below a script that `node:vm` has given a
 * timeout, functions of other contexts too: neither `catch` nor `finally` of the code that is ended sees it. Measured: 60 µs a
 * call, nothing per instruction; ended within 2 ms, in regular expressions, sorts, `JSON.stringify` and `Atomics.wait` too. What it
 * can't end: one call of native code (a search through a huge string, synchronous I/O), and what the code leaves for later (timers,
 * promise callbacks).
 *
 * Whoever calls it must not share with `run` what may not be half done.
 */
export function runWithin<Value>(limitMs: number, run: () => Value): Ran<Value> {
  let ran: Ran<Value> | undefined;
  const outer = work;
  work = (): void => {
    ran = runFree(run);
  };
  try {
    door ??= openDoor();
    door.script.runInContext(door.context, { timeout: limitMs, displayErrors: false });
  } catch (error) {
    // what `run` throws is caught above: this is the end of its time, or of the stack
    if ((error as { readonly code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      return { kind: 'overran' };
    return { kind: 'failed', error: asError(error) };
  } finally {
    work = outer;
  }
  return ran ?? { kind: 'overran' };
}

/** The same without a limit. */
export function runFree<Value>(run: () => Value): Ran<Value> {
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

/** Code may throw anything: null, a text, an object that can't be turned into one. */
export function asError(thrown: unknown): Error {
  if (types.isNativeError(thrown) && typeof thrown.message === 'string') return thrown;
  const seen = inspect(thrown, { depth: 0, customInspect: false, maxStringLength: 200 });
  return new Error(`threw ${seen.slice(0, 300)}`);
}
