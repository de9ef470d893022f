import type { Codec } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  anything,
  aText,
  isUuid,
  flowLimits,
  oneOf,
  opened,
  optional,
  optionProblems,
  throwProblems,
  encodedSignal,
  toSignalValue,
  valueProblems,
} from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';
import type { FlowDetails, FlowInfo, FlowListOptions, StepInfo, StepResult } from '../reads/flows.ts';
import {
  flowStates,
  listFlows,
  listResults,
  readFlow,
  readKeyHolder,
  readStepNames,
} from '../reads/flows.ts';
import type { Page } from '../reads/page.ts';
import { badCursor, checkLimit } from '../reads/page.ts';
import { readLeader } from '../reads/system.ts';
import { cancelFlow, retryFlow } from '../calls/flow/operate.ts';
import { signalFlow } from '../calls/flow/start.ts';
import type { WaitingStep } from './explain/flow-waits.ts';
import { waitingSteps } from './explain/flow-waits.ts';
import { wakeSchedulers } from '../hints/wake.ts';

/** Explanation of what a flow waits for. */
export interface FlowExplanation {
  readonly flow: FlowInfo;
  /** Steps that have not ended, in their order. */
  readonly steps: readonly WaitingStep[];
  /** The scheduler that leads; null: none does, so no step ends or opens. */
  readonly leader: string | null;
}

/** Verdict on a retry of a flow. */
export interface FlowRetry {
  /**
   * `nothing`: no step has failed. `stopping`: it is being cancelled, and can be retried when it has ended.
   * `key_taken`: another open flow of its name has its unique key.
   */
  readonly verdict: 'retried' | 'nothing' | 'stopping' | 'key_taken';
  /** Jobs that are back in their queues. */
  readonly jobs: number;
  /** Jobs that are not: neither the dead letters nor the history have them any more. */
  readonly gone: number;
  /** The flow that has its unique key, if that is taken. */
  readonly holder: string | null;
}

/** Operations on flows. An id that is no UUID is refused before any I/O (`configuration`). */
export interface FlowsOperator {
  /** Lists flows in pages, newest first, with their progress. */
  readonly list: (options?: FlowListOptions) => Promise<Page<FlowInfo>>;
  /**
   * Reads a flow with its steps, their needs, states and numbers.
   * @throws {PgQueueError} `not_found`: it never was, or ended more than seven days ago
   */
  readonly show: (id: string) => Promise<FlowDetails>;
  /**
   * Explains what each step that has not ended waits for.
   * @throws {PgQueueError} `not_found`
   */
  readonly explain: (id: string) => Promise<FlowExplanation>;
  /**
   * Lists the ends of a step's jobs by page, in the order of job ids: results, and the jobs that are not done.
   * A job that was done without a result is not listed. For a signal: its value. `limit`: 1 to 1000, default 50.
   * @throws {PgQueueError} `not_found`
   */
  readonly results: (
    id: string,
    step: string,
    options?: { readonly after?: string; readonly limit?: number },
  ) => Promise<Page<StepResult>>;
  /**
   * Gives a signal its value: JSON of up to 256 KiB; null if there is none. It may come before its step is open.
   * `repeated`: it has a value already, and that one counts. `ended`: the flow or the step has ended. The schema of
   * the signal is not known here.
   * @throws {PgQueueError} `not_found`; `invalid_flow`: a value that can't be stored
   */
  readonly signal: (id: string, step: string, value?: unknown) => Promise<'signalled' | 'repeated' | 'ended'>;
  /**
   * Cancels a flow: waiting jobs end, the signals of running ones abort, steps that wait are skipped. The flow
   * has ended with the last of its jobs. `ended`: it has ended, or is being cancelled. `reason`: up to 2,000
   * characters, for people.
   * @throws {PgQueueError} `not_found`
   */
  readonly cancel: (id: string, options?: { readonly reason?: string }) => Promise<'cancelling' | 'ended'>;
  /**
   * Runs what failed again: dead jobs, and jobs that were cancelled or expired as far as history reaches. Steps
   * that were skipped because of them wait again. `step`: only what failed in this step and behind it. A flow
   * that had ended has no deadline any more.
   * @throws {PgQueueError} `not_found`
   */
  readonly retry: (id: string, options?: { readonly step?: string }) => Promise<FlowRetry>;
}

const listShape: Shape<FlowListOptions> = {
  state: optional(oneOf(...flowStates)),
  name: optional(anything),
  key: optional(anything),
  after: optional(anything),
  limit: optional(anything),
};
const resultsShape = { after: optional(anything), limit: optional(anything) };
const stepName = aText({ max: flowLimits.nameLengthMax });
const cancelShape = { reason: optional(aText({ max: 2_000 })) };
const retryShape = { step: optional(stepName) };
/** Most steps that a message names. */
const namedMax = 20;

export function operateFlows(database: Database, codec?: Codec): FlowsOperator {
  const show: FlowsOperator['show'] = async (id) => {
    check('flows.show', id);
    const flow = await readFlow(database, id);
    if (flow === undefined) throw flowNotFound(id);
    return flow;
  };
  return {
    list: async (options = {}) => {
      throwProblems('configuration', 'a list of flows', optionProblems(options, listShape));
      return listFlows(database, options);
    },
    show,
    explain: async (id) => {
      const [{ steps, ...flow }, { leader }] = await Promise.all([show(id), readLeader(database)]);
      return { flow, steps: waitingSteps(steps), leader };
    },
    results: async (id, step, options = {}) => {
      check('flows.results', id, [[step, stepName, 'step']], optionProblems(options, resultsShape));
      const { after, limit = 50 } = options;
      checkLimit(limit);
      if (after !== undefined && !isUuid(after)) throw badCursor(after);
      const page = await listResults(database, {
        flow: id,
        step,
        limit,
        codec,
        decode: opened,
        ...(after === undefined ? {} : { after }),
      });
      if (page === undefined) throw await stepNotFound(database, id, { step, kind: null });
      return page;
    },
    signal: async (id, step, value = null) => {
      check('flows.signal', id, [[step, stepName, 'step']]);
      const plain = await toSignalValue({ flowId: id, step, value, by: undefined });
      const text = encodedSignal(codec, plain, { id, step });
      const verdict = await signalFlow(database, { flowId: id, step, value: text });
      if (verdict === 'unknown') throw await stepNotFound(database, id, { step, kind: 'signal' });
      return verdict;
    },
    cancel: async (id, options = {}) => {
      check('flows.cancel', id, [], optionProblems(options, cancelShape));
      const { reason = 'cancelled by an operator' } = options;
      const verdict = await cancelFlow(database, { flow: id, reason });
      if (verdict === 'unknown') throw flowNotFound(id);
      return verdict;
    },
    retry: async (id, options = {}) => {
      check('flows.retry', id, [], optionProblems(options, retryShape));
      return retry(database, id, options.step ?? null);
    },
  };
}

async function retry(database: Database, id: string, step: string | null): Promise<FlowRetry> {
  const { outcome: verdict, jobs, gone } = await retryFlow(database, { flow: id, step });
  if (verdict === 'unknown')
    throw step === null ? flowNotFound(id) : await stepNotFound(database, id, { step, kind: null });
  if (jobs > 0) await wakeSchedulers(database);
  const holder = verdict === 'key_taken' ? await readKeyHolder(database, id) : null;
  return { verdict, jobs, gone, holder };
}

const aFlowId: Rule = {
  expected: 'the UUID of a flow',
  judge: (value) => typeof value === 'string' && isUuid(value),
};

type Given = readonly [value: unknown, rule: Rule, name: string];

/** @throws {PgQueueError} `configuration`, with all problems at once */
function check(
  what: string,
  id: unknown,
  given: readonly Given[] = [],
  others: readonly string[] = [],
): void {
  const all: readonly Given[] = [[id, aFlowId, 'id'], ...given];
  const problems = all.flatMap(([value, rule, name]) => valueProblems(rule, value, name));
  throwProblems('configuration', what, [...problems, ...others]);
}

function flowNotFound(id: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `there is no flow ${id}: it never was, or ended more than seven days ago`,
    { data: { id } },
  );
}

/** Tells on the way of an error whether the flow is missing or its step, and which steps there are. */
async function stepNotFound(
  database: Database,
  id: string,
  { step, kind }: { readonly step: string; readonly kind: StepInfo['kind'] | null },
): Promise<PgQueueError> {
  const names = await readStepNames(database, { flow: id, kind, max: namedMax });
  if (names === undefined) return flowNotFound(id);
  const what = kind ?? 'step';
  const quoted = names
    .map((name) => JSON.stringify(name))
    .concat(names.length === namedMax ? '…' : [])
    .join(', ');
  return new PgQueueError(
    'not_found',
    `flow ${id} has no ${what} ${JSON.stringify(step)}: ${names.length === 0 ? 'it has none' : `its ${what}s are ${quoted}`}`,
    { data: { id, step } },
  );
}
