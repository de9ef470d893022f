import type { Json, Leading, Policy, Preparation, Prepared } from '@pgqueue/core';
import { asError, runWithin } from './time-limit.ts';
import type { Faults } from './faults.ts';
import { freezeAll } from '../freeze.ts';
import { jsonProblem } from './plain-json.ts';

/** Fetches the values that a policy prepares, outside the ticks. */
export interface Preparing {
  /**
   * Returns the values fetched last. `nowMs`: the database's clock. A value is dated by the start of its
   * fetch, so it never counts as newer than it is.
   */
  readonly prepared: (nowMs: number) => Readonly<Record<string, Prepared>>;
  /** Drops all values and starts fetching. */
  readonly start: () => void;
  /** Aborts running fetches. Does not wait for a fetch that ignores its signal. */
  readonly stop: () => Promise<void>;
}

export interface PreparingOptions {
  readonly policy: Policy;
  /** Name under which failures are reported. Default: the policy's name. */
  readonly name?: string;
  /** Time limit of a fetch's synchronous part, which blocks the ticks. */
  readonly budgetMs: number;
  readonly faults: Faults;
  readonly onPrepared?: () => void;
  /** Returns the leader for which a value is fetched. Default: none, for a policy that dispatches nothing. */
  readonly leading?: (part: string) => Leading | undefined;
  readonly clock: () => number;
}

/**
 * First pause after a failed fetch, in milliseconds. It doubles with each failure, up to the usual interval.
 */
const retryMs = 1_000;

/** State of one preparation. */
interface Fetching {
  readonly preparation: Preparation;
  value: { readonly json: Json; readonly at: number; prepared?: Prepared } | undefined;
  failures: number;
  timer: NodeJS.Timeout | undefined;
  abort: AbortController | undefined;
  /** True while a fetch that ran out of time has not ended. No other fetch starts beside it. */
  stuck: boolean;
  running: Promise<void> | undefined;
}

export function createPreparing(options: PreparingOptions): Preparing {
  const all = (options.policy.prepare ?? []).map((preparation): Fetching => ({
    preparation,
    value: undefined,
    failures: 0,
    timer: undefined,
    abort: undefined,
    stuck: false,
    running: undefined,
  }));
  const stop = async (): Promise<void> => {
    for (const fetching of all) {
      clearTimeout(fetching.timer);
      fetching.abort?.abort(new Error('the scheduler does not lead any more'));
      fetching.abort = undefined;
    }
    await Promise.all(all.map(({ running }) => running ?? Promise.resolve()));
  };
  return {
    prepared: (nowMs) => {
      const values: Record<string, Prepared> = {};
      for (const { preparation, value } of all) {
        if (value === undefined || options.clock() - value.at >= (preparation.validMs ?? Infinity)) continue;
        value.prepared ??= Object.freeze({ value: value.json, atMs: nowMs - (options.clock() - value.at) });
        values[preparation.name] = value.prepared;
      }
      return values;
    },
    start: () => {
      void stop();
      for (const fetching of all) {
        fetching.value = undefined;
        fetching.failures = 0;
        fetching.running = run(fetching, options);
      }
    },
    stop,
  };
}

/** Runs one fetch and schedules the next, until stopped. Never rejects. */
async function run(fetching: Fetching, options: PreparingOptions): Promise<void> {
  const { preparation, stuck } = fetching;
  const { policy, name = policy.name, faults, clock, onPrepared } = options;
  const abort = new AbortController();
  fetching.abort = abort;
  const at = clock();
  const outcome = stuck
    ? new Error('the last fetch has still not ended, though it was aborted: it does not heed its signal')
    : await fetchOnce(fetching, abort, options);
  // stopped or restarted meanwhile
  if (fetching.abort !== abort) return;
  let waitMs = preparation.everyMs - (clock() - at);
  if (outcome instanceof Error) {
    waitMs = Math.min(preparation.everyMs, retryMs * 2 ** Math.min(fetching.failures, 20));
    fetching.failures += 1;
    faults.report({ policy: name, part: preparation.name, error: outcome, retryMs: waitMs });
  } else {
    fetching.failures = 0;
    fetching.value = { json: outcome.json, at };
    onPrepared?.();
  }
  const next = (): void => {
    fetching.running = run(fetching, options);
  };
  fetching.timer = setTimeout(next, Math.max(0, waitMs));
}

async function fetchOnce(
  fetching: Fetching,
  abort: AbortController,
  { budgetMs, leading }: PreparingOptions,
): Promise<Error | { readonly json: Json }> {
  const { name, fetch, deadlineMs } = fetching.preparation;
  const begun = runWithin(budgetMs, () => fetch(abort.signal, leading?.(name)));
  if (begun.kind === 'overran') {
    void Promise.resolve(begun.late).catch(() => {}); // unheard, its rejection would end the process
    return new Error(`fetch did not return a promise within ${budgetMs} ms`);
  }
  if (begun.kind === 'failed') return begun.error;
  const fetched = Promise.resolve(begun.value).then(
    (value) => checkJson(value, budgetMs),
    (error: unknown) => asError(error),
  );
  fetching.stuck = true;
  void fetched.then(() => {
    fetching.stuck = false;
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Error>((resolve) => {
    timer = setTimeout(() => {
      const error = new Error(`not fetched within ${deadlineMs} ms`);
      resolve(error);
      abort.abort(error);
    }, deadlineMs);
    abort.signal.addEventListener('abort', () => resolve(asError(abort.signal.reason)), { once: true });
  });
  try {
    return await Promise.race([fetched, late]);
  } finally {
    clearTimeout(timer);
  }
}

function checkJson(value: Json, budgetMs: number): Error | { readonly json: Json } {
  const checked = runWithin(budgetMs, () => {
    const problem = jsonProblem(value);
    if (problem !== undefined) throw new Error(`what it fetched is no JSON: ${problem}`);
    freezeAll(value);
  });
  if (checked.kind === 'done') return { json: value };
  return checked.kind === 'failed'
    ? checked.error
    : new Error(`what it fetched could not be looked through within ${budgetMs} ms`);
}
