import { errorData } from '../error-data.ts';
import { PgQueueError } from '../errors.ts';
import { isUuid } from '../ids.ts';
import type { JobRow, TraceContext } from '../job/job.ts';
import { isTraceparent, jobLimits } from '../job/validate.ts';
import type { Duration } from '../options/duration.ts';
import { parseDuration } from '../options/duration.ts';
import type { Rule, Shape } from '../options/options.ts';
import { anObject, aText, optional, optionProblems, say, valueProblems } from '../options/options.ts';
import { checkGraph } from './check-graph.ts';
import { flatten } from './flatten.ts';
import { jobRows } from './job-rows.ts';
import { flowLimits } from './limits.ts';
import type { ProblemList } from './problems.ts';
import { createProblems } from './problems.ts';
import type { NeedCondition, AnyFlow } from './step.ts';

/** Options of one run of a flow. */
export interface FlowOptions {
  /** UUID made by the caller: starting the same id again changes nothing. Default: a new UUID v7. */
  readonly id?: string;
  /**
   * Fairness key (a tenant, a customer), up to 200 characters. Jobs of the flow that have no key of their own
   * get it, too. Default `''`.
   */
  readonly key?: string;
  /** Unique key, 1 to 500 characters: at most one open flow of a name has it. */
  readonly uniqueKey?: string;
  /** Time from now, by the database's clock, after which the flow is cancelled. Default: none. */
  readonly deadline?: Duration;
  readonly trace?: TraceContext;
}

/**
 * A flow in the form that is stored: checked, with steps by their index and durations in milliseconds. Each
 * step comes after those that it needs.
 */
export interface FlowRow {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly uniqueKey: string | null;
  readonly deadlineMs: number | null;
  readonly trace: TraceContext | null;
  readonly steps: readonly FlowStepRow[];
}

/** One step of a {@link FlowRow}. */
export interface FlowStepRow {
  readonly name: string;
  readonly kind: 'jobs' | 'signal' | 'timer';
  readonly wants: 'all' | 'any';
  readonly needs: readonly (readonly [step: number, condition: NeedCondition])[];
  /** For a timer. */
  readonly delayMs: number | null;
  readonly stopAfter: number | null;
  readonly jobs: readonly JobRow[];
}

const aDeadline: Rule = {
  expected: 'a positive duration: milliseconds, or a text such as "7d"',
  judge: (value) => (parseDuration(value) ?? 0) > 0,
};

const shape: Shape<FlowOptions> = {
  id: optional({ expected: 'a UUID', judge: (value) => typeof value === 'string' && isUuid(value) }),
  key: optional(aText({ min: 0, max: flowLimits.keyLengthMax })),
  uniqueKey: optional(aText({ max: flowLimits.uniqueKeyLengthMax })),
  deadline: optional(aDeadline),
  trace: optional(
    anObject({
      traceparent: { expected: 'a W3C traceparent', judge: isTraceparent },
      tracestate: optional(aText({ min: 0, max: jobLimits.traceStateLengthMax })),
    }),
  ),
};

/**
 * Returns a flow in the form that is stored. Pure except for the schemas of payloads: no I/O. Payloads are
 * checked as `toJobRow` does.
 * @param makeId makes the ids that the caller did not give: the flow's first, then those of its jobs in order
 * @throws {PgQueueError} `invalid_flow`, with all problems at once. `data.problems` has them in words,
 * `data.jobs` those of jobs by step and index.
 */
export async function toFlowRow(flow: AnyFlow, options: FlowOptions, makeId: () => string): Promise<FlowRow> {
  try {
    return await checkedFlow(flow, options, makeId);
  } catch (error) {
    if (error instanceof PgQueueError) throw error;
    throw new PgQueueError(
      'invalid_flow',
      `a flow can't be started: it can't be read (${errorData(error).message})`,
      { cause: error },
    );
  }
}

async function checkedFlow(flow: AnyFlow, given: FlowOptions, makeId: () => string): Promise<FlowRow> {
  if (!isFlow(flow)) {
    throw new PgQueueError('invalid_flow', `start takes a flow, made by flow(name), not ${say(flow)}`);
  }
  const problems = createProblems();
  const { name } = flow;
  for (const problem of valueProblems(aName, name, 'its name')) problems.add(problem);
  const { id, key = '', uniqueKey = null, deadline, trace = null } = checkedOptions(given, problems);
  const steps = checkGraph(flatten(flow, problems), problems);
  const flowId = id?.toLowerCase() ?? makeId();
  const { rows, wrong } = await jobRows(steps, { key, makeId, problems });
  const told = problems.told();
  if (told.length > 0) {
    const subject =
      typeof name === 'string' ? `flow ${JSON.stringify(name.slice(0, flowLimits.nameLengthMax))}` : 'a flow';
    throw new PgQueueError('invalid_flow', `${subject} can't be started: ${told.join('; ')}`, {
      data: { problems: told, ...(wrong.length === 0 ? {} : { jobs: wrong }) },
    });
  }
  const indexes = new Map(steps.map((step, index) => [step.name, index]));
  return {
    id: flowId,
    name,
    key,
    uniqueKey,
    deadlineMs: deadline === undefined ? null : Math.ceil(parseDuration(deadline) ?? 0),
    trace,
    steps: steps.map(({ name, kind, wants, needs, delayMs, stopAfter }, index) => ({
      name,
      kind,
      wants,
      needs: [...needs].map(([needed, condition]) => [indexes.get(needed) ?? -1, condition] as const),
      delayMs,
      stopAfter,
      jobs: rows[index] ?? [],
    })),
  };
}

const aName = aText({ max: flowLimits.nameLengthMax });

function checkedOptions(given: FlowOptions, problems: ProblemList): FlowOptions {
  // copied: a getter might give another value later
  const options = typeof given === 'object' && given !== null ? { ...given } : given;
  const found = optionProblems(options, shape);
  for (const problem of found) problems.add(problem);
  return found.length === 0 ? options : {};
}

/** Reports whether a value was made by `flow(name)`, also by another copy of this package. */
function isFlow(value: unknown): value is AnyFlow {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, steps } = value as Partial<AnyFlow>;
  return kind === 'pgqueue.flow' && Array.isArray(steps);
}
