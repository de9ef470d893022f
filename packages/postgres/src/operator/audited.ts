import type { Database } from '../connection/database.ts';
import type { Actor } from '../dashboard/audit.ts';
import { audited } from '../dashboard/audit.ts';
import type { DeadSelection } from './dead.ts';
import type { Verdicts } from './jobs.ts';
import type { Operator } from './operator-interface.ts';

const idsNoted = 100;

/** Parts of an audit line that the first argument of a change does not tell. */
interface More<Given extends readonly unknown[], Result> {
  readonly target?: (...given: Given) => string | undefined;
  readonly details?: (...given: Given) => object;
  /** Default: a result that is an object; of a list of verdicts, their numbers. */
  readonly result?: (value: Result) => unknown;
}

/** Returns a function that returns changes that are noted. */
function createNoted(database: Database, actor: Actor) {
  return <Given extends readonly unknown[], Result>(
    action: string,
    change: (...given: Given) => Promise<Result>,
    { target, details, result = resultOf }: More<Given, Result> = {},
  ) =>
    (...given: Given): Promise<Result> => {
      const subject = subjectOf(given[0]);
      const noted = {
        target: target?.(...given) ?? subject.target,
        details: { ...subject.details, ...details?.(...given) },
      };
      return audited(database, { actor, action, ...noted }, async () => {
        const value = await change(...given);
        return { value, result: result(value) };
      });
    };
}

/**
 * Returns the same operator, with a line in the table `audit` for each change. A change that cannot be noted
 * is not made. The values of signals are not noted.
 */
export function withAudit(database: Database, operator: Operator, actor: Actor): Operator {
  const noted = createNoted(database, actor);
  const { jobs, dead, flows, queues, nodes, schedules, installation, limits, doctor } = operator;
  const chosen = { details: filterOf };
  const options = { details: (_id: string, given?: object) => ({ ...given }) };
  const asVerdict = (verdict: string): object => ({ verdict });
  const mend = noted('doctor.mend', doctor, {
    result: ({ findings }) => ({
      mended: findings.flatMap(({ check, mended }) => (mended === null ? [] : [check])),
    }),
  });
  return {
    ...operator,
    jobs: {
      ...jobs,
      cancel: noted('jobs.cancel', jobs.cancel),
      cancelAll: noted('jobs.cancel', jobs.cancelAll, { details: (filter) => ({ filter }) }),
      runNow: noted('jobs.run_now', jobs.runNow),
      retry: noted('jobs.retry', jobs.retry),
      amend: noted('jobs.amend', jobs.amend, { details: (_ids, amendment) => amendment }),
      erase: noted('jobs.delete', jobs.erase),
      signal: noted('jobs.signal', jobs.signal, { details: (_id, name) => ({ name }), result: asVerdict }),
    },
    dead: {
      ...dead,
      redrive: noted('dead.redrive', dead.redrive, chosen),
      purge: noted('dead.purge', dead.purge, chosen),
      rewrap: noted('dead.rewrap', dead.rewrap, {
        ...chosen,
        result: ({ problems: _problems, ...counts }) => counts,
      }),
    },
    flows: {
      ...flows,
      signal: noted('flows.signal', flows.signal, { details: (_id, step) => ({ step }), result: asVerdict }),
      cancel: noted('flows.cancel', flows.cancel, { ...options, result: asVerdict }),
      retry: noted('flows.retry', flows.retry, options),
    },
    queues: {
      ...queues,
      pause: noted('queue.set', queues.pause, { details: () => ({ paused: true }) }),
      resume: noted('queue.set', queues.resume, { details: () => ({ paused: false }) }),
      set: noted('queue.set', queues.set, { details: (_queue, settings) => settings }),
      forget: noted('queue.forget', queues.forget),
    },
    nodes: { ...nodes, reset: noted('node.reset', nodes.reset) },
    schedules: {
      ...schedules,
      set: noted('schedule.set', schedules.set, {
        target: ({ name }) => name,
        details: ({ cron, timezone, job, task }) => ({ cron, timezone, task: job?.task ?? task }),
      }),
      pause: noted('schedule.pause', schedules.pause),
      resume: noted('schedule.resume', schedules.resume),
      remove: noted('schedule.remove', schedules.remove),
      runNow: noted('schedule.run_now', schedules.runNow, { result: (job) => ({ job }) }),
    },
    installation: {
      ...installation,
      init: noted('installation.init', installation.init, {
        details: (identity) => identity,
        result: (outcome) => ({ outcome }),
      }),
    },
    limits: {
      ...limits,
      forfeit: noted('limit.forfeit', limits.forfeit, {
        target: (part) => part?.limit,
        details: (part) => ({ installation: part?.installation }),
      }),
      remove: noted('limit.remove', limits.remove),
    },
    doctor: (given) => (given?.mend === true ? mend(given) : doctor(given)),
  };
}

/** Returns the target, or the jobs, that the first argument of a change names. */
function subjectOf(given: unknown): { readonly target: string | null; readonly details?: object } {
  if (typeof given === 'string') return { target: given };
  const listed: unknown = (given as { readonly ids?: unknown } | undefined)?.ids ?? given;
  if (!Array.isArray(listed)) return { target: null };
  const ids = listed as readonly string[];
  const [only = null] = ids.length === 1 ? ids : [];
  return { target: only, details: { jobs: ids.length, ids: ids.slice(0, idsNoted) } };
}

function filterOf(selection: DeadSelection): object {
  return 'ids' in selection ? {} : { filter: selection };
}

function resultOf(value: unknown): unknown {
  if (!Array.isArray(value)) return typeof value === 'object' ? value : {};
  const counts: Record<string, number> = {};
  for (const { verdict } of value as Verdicts<string>) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return counts;
}
