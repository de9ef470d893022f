import type { Database } from '../connection/database.ts';
import type { Actor } from '../dashboard/audit.ts';
import { audited } from '../dashboard/audit.ts';
import type { DeadOperator } from './dead.ts';
import type { FlowsOperator } from './flows.ts';
import type { JobsOperator } from './jobs.ts';
import type { Operator } from './operator-interface.ts';
import type { SharedLimitsOperator } from './shared-limits.ts';

const idsNoted = 100;

interface What {
  readonly action: string;
  readonly target?: string;
  readonly details?: object;
}

/**
 * Returns the same operator, with a line in the table `audit` for each change. A change that cannot be noted
 * is not made. A result that is an object is noted too.
 */
export function withAudit(database: Database, operator: Operator, actor: Actor): Operator {
  const note = <Result>(
    { action, target, details = {} }: What,
    work: () => Promise<Result>,
    resultOf: (value: Result) => unknown = (value) => (typeof value === 'object' ? value : {}),
  ): Promise<Result> =>
    audited(database, { actor, action, target: target ?? null, details }, async () => {
      const value = await work();
      return { value, result: resultOf(value) };
    });
  const { queues, nodes, schedules, installation, limits, doctor } = operator;
  return {
    ...operator,
    jobs: auditedJobs(operator.jobs, note),
    dead: auditedDead(operator.dead, note),
    flows: auditedFlows(operator.flows, note),
    queues: {
      ...queues,
      pause: (queue) =>
        note({ action: 'queue.set', target: queue, details: { paused: true } }, () => queues.pause(queue)),
      resume: (queue) =>
        note({ action: 'queue.set', target: queue, details: { paused: false } }, () => queues.resume(queue)),
      set: (queue, settings) =>
        note({ action: 'queue.set', target: queue, details: settings }, () => queues.set(queue, settings)),
      forget: (queue) => note({ action: 'queue.forget', target: queue }, () => queues.forget(queue)),
    },
    nodes: {
      ...nodes,
      reset: (node) => note({ action: 'node.reset', target: node }, () => nodes.reset(node)),
    },
    schedules: {
      ...schedules,
      set: (definition) => {
        const { name, cron, timezone, job } = definition;
        const details = { cron, timezone, task: job?.task ?? definition.task };
        return note({ action: 'schedule.set', target: name, details }, () => schedules.set(definition));
      },
      pause: (name) => note({ action: 'schedule.pause', target: name }, () => schedules.pause(name)),
      resume: (name) => note({ action: 'schedule.resume', target: name }, () => schedules.resume(name)),
      remove: (name) => note({ action: 'schedule.remove', target: name }, () => schedules.remove(name)),
      runNow: (name) =>
        note(
          { action: 'schedule.run_now', target: name },
          () => schedules.runNow(name),
          (job) => ({ job }),
        ),
    },
    installation: {
      ...installation,
      init: (identity) =>
        note(
          { action: 'installation.init', details: { ...identity } },
          () => installation.init(identity),
          (outcome) => ({ outcome }),
        ),
    },
    limits: auditedLimits(limits, note),
    doctor: (options) =>
      options?.mend === true
        ? note(
            { action: 'doctor.mend' },
            () => doctor(options),
            ({ findings }) => ({
              mended: findings.flatMap(({ check, mended }) => (mended === null ? [] : [check])),
            }),
          )
        : doctor(options),
  };
}

type Note = <Result>(
  what: What,
  work: () => Promise<Result>,
  resultOf?: (value: Result) => unknown,
) => Promise<Result>;

/**
 * Returns the target and details of an audit line for a list of ids. A value that is no list counts as an
 * empty one: the action itself refuses it.
 */
function idsOf(given: readonly string[]): Pick<What, 'details'> & { readonly target?: string } {
  const ids: readonly string[] = Array.isArray(given) ? given : [];
  const [only] = ids;
  return {
    ...(ids.length === 1 && only !== undefined ? { target: only } : {}),
    details: { jobs: ids.length, ids: ids.slice(0, idsNoted) },
  };
}

/** Counts the verdicts by name. */
function verdictsOf(verdicts: readonly { readonly verdict: string }[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { verdict } of verdicts) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return counts;
}

function auditedLimits(limits: SharedLimitsOperator, note: Note): SharedLimitsOperator {
  return {
    ...limits,
    forfeit: (part) =>
      note(
        { action: 'limit.forfeit', target: part?.limit, details: { installation: part?.installation } },
        () => limits.forfeit(part),
      ),
    remove: (limit) => note({ action: 'limit.remove', target: limit }, () => limits.remove(limit)),
  };
}

function auditedJobs(jobs: JobsOperator, note: Note): JobsOperator {
  return {
    ...jobs,
    cancel: (ids) => note({ action: 'jobs.cancel', ...idsOf(ids) }, () => jobs.cancel(ids), verdictsOf),
    cancelAll: (filter, options) =>
      note({ action: 'jobs.cancel', details: { filter } }, () => jobs.cancelAll(filter, options)),
    runNow: (ids) => note({ action: 'jobs.run_now', ...idsOf(ids) }, () => jobs.runNow(ids), verdictsOf),
    retry: (ids) => note({ action: 'jobs.retry', ...idsOf(ids) }, () => jobs.retry(ids), verdictsOf),
    amend: (ids, amendment) => {
      const { details, ...of } = idsOf(ids);
      const what = { action: 'jobs.amend', ...of, details: { ...details, ...amendment } };
      return note(what, () => jobs.amend(ids, amendment), verdictsOf);
    },
    erase: (ids) => note({ action: 'jobs.delete', ...idsOf(ids) }, () => jobs.erase(ids), verdictsOf),
    // the value of a signal is not noted
    signal: (id, name, value) =>
      note(
        { action: 'jobs.signal', target: id, details: { name } },
        () => jobs.signal(id, name, value),
        (verdict) => ({ verdict }),
      ),
  };
}

/** Notes that a signal was given, and not its value. */
function auditedFlows(flows: FlowsOperator, note: Note): FlowsOperator {
  const asVerdict = (verdict: string): object => ({ verdict });
  return {
    ...flows,
    signal: (id, step, value) =>
      note(
        { action: 'flows.signal', target: id, details: { step } },
        () => flows.signal(id, step, value),
        asVerdict,
      ),
    cancel: (id, options) =>
      note(
        { action: 'flows.cancel', target: id, details: { ...options } },
        () => flows.cancel(id, options),
        asVerdict,
      ),
    retry: (id, options) =>
      note({ action: 'flows.retry', target: id, details: { ...options } }, () => flows.retry(id, options)),
  };
}

function auditedDead(dead: DeadOperator, note: Note): DeadOperator {
  const whatOf = (action: string, selection: Parameters<DeadOperator['redrive']>[0]): What => ({
    action,
    ...('ids' in selection ? idsOf(selection.ids) : { details: { filter: selection } }),
  });
  return {
    ...dead,
    redrive: (selection, options) =>
      note(whatOf('dead.redrive', selection), () => dead.redrive(selection, options)),
    purge: (selection, options) =>
      note(whatOf('dead.purge', selection), () => dead.purge(selection, options)),
    rewrap: (selection, options) =>
      note(
        whatOf('dead.rewrap', selection),
        () => dead.rewrap(selection, options),
        ({ problems: _problems, ...counts }) => counts,
      ),
  };
}
