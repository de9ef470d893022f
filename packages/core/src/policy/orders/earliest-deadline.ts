import type { Shape } from '../../options/options.ts';
import { aFunction, aNumber, optional, orNull } from '../../options/options.ts';
import { checkPart } from '../check-part.ts';
import type { Heads, OpenOrder, Order } from '../order.ts';
import type { Candidate, JobFacts, Snapshot } from '../snapshot.ts';
import type { Forecast } from './deadline-forecast.ts';
import { forecastMisses, isForecast } from './deadline-forecast.ts';
import { openRanked } from './ranked.ts';
import type { Ranking } from './ranked.ts';
import type { Runtimes } from './runtimes.ts';
import { estimates, inOrder, learn, noRuntimes, restoreRuntimes } from './runtimes.ts';

/** Where a deadline is read, and what a job is expected to take: see {@link earliestDeadline}. */
export interface EarliestDeadlineOptions {
  /** Unix milliseconds by which it should have finished; null: it has none. The same whenever it is asked. */
  readonly deadline: (job: JobFacts) => number | null;
  /** How long it will run, in milliseconds. Default: the measured mean of its task. */
  readonly cost?: (job: JobFacts) => number;
  /** A job without a deadline counts as if it had one so long after it was enqueued: then it can't starve. Null: it goes last. Default null. */
  readonly otherwiseMs?: number | null;
}

const shape: Shape<EarliestDeadlineOptions> = {
  deadline: aFunction,
  cost: optional(aFunction),
  otherwiseMs: optional(orNull(aNumber({ min: 0 }))),
};

type State = { readonly runtimes: Runtimes; readonly forecast: Forecast | null };

/** The forecast looks at all visible jobs, so it is made anew only so often. */
const forecastEveryMs = 1_000;

/**
 * The job whose deadline comes first (EDF: where all deadlines can be met, on one slot, it meets them), then the job enqueued
 * first. Jobs without one go last, in the order of their enqueuing. A job lends its deadline to those that stand before it in
 * its key, which must go before it. Nothing is given up: a job goes in its turn even if it is late.
 *
 * Forecasts, once a second: `late`, visible jobs whose deadline is past; `will_be_late`, further ones that will miss it if nothing
 * else comes, jobs run as long as they did on average, and every slot of the pool can run them; `with_deadline`, how many have one.
 * @throws {PgQueueError} `configuration`
 */
export function earliestDeadline(options: EarliestDeadlineOptions): Order<State> {
  checkPart('order', 'earliest_deadline', { options, shape });
  const { deadline, cost, otherwiseMs = null } = options;
  const rank = (job: Candidate): number => {
    const due = deadline(job);
    if (due !== null) return due;
    return otherwiseMs === null ? Infinity : job.createdMs + otherwiseMs;
  };
  const ranking: Ranking = { name: 'earliest_deadline', rank, lends: true };
  return {
    name: ranking.name,
    initial: { runtimes: noRuntimes, forecast: null },
    restore: restoreState,
    open: (snapshot, state, heads) => openDeadlines(options, { ranking, snapshot, state, heads }),
    needs: { settlements: cost === undefined },
    soft: true,
  };
}

function restoreState(saved: unknown): State {
  const { runtimes, forecast }: Readonly<Record<string, unknown>> =
    typeof saved === 'object' && saved !== null ? { ...saved } : {};
  return { runtimes: restoreRuntimes(runtimes), forecast: isForecast(forecast) ? forecast : null };
}

function openDeadlines(
  options: EarliestDeadlineOptions,
  seen: {
    readonly ranking: Ranking;
    readonly snapshot: Snapshot;
    readonly state: State;
    readonly heads: Heads;
  },
): OpenOrder<State> {
  const { deadline, cost } = options;
  const { ranking, snapshot, state, heads } = seen;
  const runtimes = cost === undefined ? learn(state.runtimes, inOrder(snapshot.settled)) : state.runtimes;
  const { ofTask } = estimates(runtimes);
  const due = state.forecast === null || snapshot.nowMs >= state.forecast.atMs + forecastEveryMs;
  const forecast = due
    ? forecastMisses(snapshot, { deadline, costOf: cost ?? (({ task }): number => ofTask(task) ?? 0) })
    : state.forecast;
  return {
    ...openRanked(ranking, snapshot, heads),
    forecast: () => forecast?.counts ?? {},
    state: () =>
      runtimes === state.runtimes && forecast === state.forecast ? state : { runtimes, forecast },
  };
}
