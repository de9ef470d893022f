import { answerOf } from '../answer.ts';
import type { Shape } from '../../options/options.ts';
import { aFunction, aNumber, optional, orNull } from '../../options/options.ts';
import { checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Heads, OpenOrder, Order } from '../order.ts';
import type { Candidate, JobFacts, Snapshot } from '../snapshot.ts';
import type { Forecast } from './ranking/deadline-forecast.ts';
import { forecastMisses, isForecast } from './ranking/deadline-forecast.ts';
import { openRanked } from './ranked.ts';
import type { Ranking } from './ranked.ts';
import type { Runtimes } from './ranking/runtimes.ts';
import { asRecord, estimates, inOrder, learn, noRuntimes, restoreRuntimes } from './ranking/runtimes.ts';

/** Options of {@link earliestDeadline}: the deadline of a job, and its expected runtime. */
export interface EarliestDeadlineOptions {
  /**
   * Time by which the job should have finished, in Unix milliseconds. Null: no deadline. Must give the same
   * answer each time.
   */
  readonly deadline: (job: JobFacts) => number | null;
  /** Expected runtime of a job, in milliseconds. Default: the measured mean of its task. */
  readonly cost?: (job: JobFacts) => number;
  /**
   * Deadline of a job that has none, in milliseconds after it was enqueued, so that it can't starve. Null:
   * such jobs go last. Default null.
   */
  readonly otherwiseMs?: number | null;
}

const shape: Shape<EarliestDeadlineOptions> = {
  deadline: aFunction,
  cost: optional(aFunction),
  otherwiseMs: optional(orNull(aNumber({ min: 0 }))),
};

type State = { readonly runtimes: Runtimes; readonly forecast: Forecast | null };

/** Shortest time between two forecasts, in milliseconds. A forecast goes through all visible jobs. */
const forecastEveryMs = 1_000;

/**
 * Orders jobs by deadline, the earliest first, then by enqueuing.
 *
 * On one slot this order (EDF) meets all deadlines whenever they can all be met. Jobs without a deadline go
 * last, in the order of their enqueuing. A job lends its deadline to the jobs before it in its key, since
 * those must go first. No job is given up: it goes in its turn even if it is late.
 *
 * Forecasts, once a second: `with_deadline`, visible jobs that have a deadline; `late`, those whose deadline
 * is past; `will_be_late`, further ones that will miss theirs. The forecast assumes that no other jobs
 * arrive, that jobs run as long as they did on average, and that every slot of the pool can run them.
 * @throws {PgQueueError} `configuration`
 */
export function earliestDeadline(options: EarliestDeadlineOptions): Order {
  checkPart('order', 'earliest_deadline', { options, shape });
  const { deadline, cost, otherwiseMs = null } = options;
  const rank = (job: Candidate): number => {
    const due = deadline(job);
    if (due !== null) return due;
    return otherwiseMs === null ? Infinity : job.createdMs + otherwiseMs;
  };
  const ranking: Ranking = { name: 'earliest_deadline', rank, lends: true };
  return madeWith(options, {
    name: ranking.name,
    initial: { runtimes: noRuntimes, forecast: null },
    restore: restoreState,
    open: (snapshot, state, heads) => openDeadlines(options, { ranking, snapshot, state, heads }),
    needs: { settlements: cost === undefined },
    soft: true,
  } satisfies Order<State>);
}

function restoreState(saved: unknown): State {
  const { runtimes, forecast } = asRecord(saved);
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
    ? forecastMisses(snapshot, {
        deadline: (job) => answerOf('deadline', deadline(job)),
        costOf: (job) => (cost === undefined ? (ofTask(job.task) ?? 0) : answerOf('cost', cost(job))),
      })
    : state.forecast;
  return {
    ...openRanked(ranking, snapshot, heads),
    forecast: () => forecast?.counts ?? {},
    state: () =>
      runtimes === state.runtimes && forecast === state.forecast ? state : { runtimes, forecast },
  };
}
