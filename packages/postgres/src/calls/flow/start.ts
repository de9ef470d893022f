import type { FlowRow, FlowStepRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';
import type { KeyVersions } from '../enqueue/enqueue.ts';
import { explaining, homeCall } from '../enqueue/enqueue.ts';
import { jobsJson, unless } from '../enqueue/job-json.ts';

/** Answer to the start of a flow. `kept`: `id` is that of the open flow that has the unique key. */
export interface FlowStarted {
  readonly id: string;
  readonly outcome: 'started' | 'repeated' | 'kept';
}

/**
 * Starts flows, all of them or nothing: their steps, and the jobs of those that need no other step. Answers in their order.
 * Safe to repeat: an id that exists changes nothing. The SQL function says which locks it takes. The rights of a
 * producer are enough.
 * @param versions given by a router: the statement checks that this installation is the home of the flows' keys
 * @throws {PgQueueError} `invalid_job` if a payload takes more room as jsonb than the table allows;
 * `too_many_pending`, `moved`
 */
export async function startFlows(
  target: Target,
  rows: readonly FlowRow[],
  versions?: KeyVersions,
): Promise<readonly FlowStarted[]> {
  const { schema } = target;
  const values: (string | null)[] = [`[${rows.map(flowJson).join(',')}]`];
  const home = versions === undefined ? '' : homeCall(schema, { jobs: rows, versions, again: true }, values);
  const answers = await explaining(() =>
    target.query<FlowStarted>(
      `select s.flow_id::text as id, s.outcome from ${schema}.start_flows($1::text::jsonb) s${home} order by s.n`,
      values,
    ),
  );
  if (answers.length !== rows.length)
    throw new PgQueueError('invariant', `${answers.length} answers for ${rows.length} flows`);
  return answers;
}

/** Writes a flow as `start_flow` takes it. */
export function flowJson(row: FlowRow): string {
  const fields = JSON.stringify({
    id: row.id,
    name: row.name,
    key: unless('', row.key),
    unique_key: unless(null, row.uniqueKey),
    deadline_ms: unless(null, row.deadlineMs),
    trace: unless(null, row.trace),
  });
  return `${fields.slice(0, -1)},"steps":[${row.steps.map(stepJson).join(',')}]}`;
}

function stepJson(step: FlowStepRow): string {
  const fields = JSON.stringify({
    name: step.name,
    kind: unless('jobs', step.kind),
    wants: unless('all', step.wants),
    needs: step.needs.length === 0 ? undefined : step.needs,
    delay_ms: unless(null, step.delayMs),
    stop_after: unless(null, step.stopAfter),
  });
  return step.jobs.length === 0 ? fields : `${fields.slice(0, -1)},"jobs":${jobsJson(step.jobs)}}`;
}

/** A signal of a flow, and its value as JSON text. */
export interface SignalInFlow {
  readonly flowId: string;
  readonly step: string;
  readonly value: string;
}

/**
 * Gives a signal its value; the first value wins. `ended`: the step or its flow has ended.
 * `unknown`: there is no such flow, or it has no such signal. The SQL function wakes the leader.
 */
export async function signalFlow(
  target: Target,
  { flowId, step, value }: SignalInFlow,
): Promise<'signalled' | 'repeated' | 'ended' | 'unknown'> {
  const values = [flowId, step, value];
  type Outcome = 'signalled' | 'repeated' | 'ended' | 'unknown';
  const outcome = await ask<Outcome>(target, 'signal_flow($1::uuid, $2::text, $3::text::jsonb)', values);
  if (outcome === undefined) throw new PgQueueError('invariant', `no answer for a signal of flow ${flowId}`);
  return outcome;
}

/** State of a flow. One that is missing never was, or has been deleted after its retention. */
export interface FlowState {
  readonly id: string;
  readonly state: 'open' | 'done' | 'failed' | 'cancelled';
  readonly reason: string | null;
}

/** Reads the states of flows. */
export function readFlowStates(
  { query, schema }: Target,
  ids: readonly string[],
): Promise<readonly FlowState[]> {
  return query<FlowState>(
    `select s.id::text as id, s.state, s.reason from ${schema}.flow_state($1::text::uuid[]) s`,
    [`{${ids.join(',')}}`],
  );
}
