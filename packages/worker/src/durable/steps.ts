import type { DurableContext, EndedJob, NewJob, SignalOptions } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { JobRow, Shape } from '@pgqueue/core/internal';
import {
  aDuration,
  aFlag,
  aFunction,
  aSchema,
  durationMs,
  issueTexts,
  optional,
  optionProblems,
  signalFlowRow,
  storableJson,
  throwProblems,
  waitedFlowRow,
} from '@pgqueue/core/internal';
import type { EndInStep } from '@pgqueue/postgres/internal';
import { makeId, signalFlowId } from '@pgqueue/postgres/internal';
import { ResultError } from '../lease/result.ts';
import { addedRows } from '../flow/added-jobs.ts';
import type { FlowEntry, NodePort } from '../flow/node-port.ts';
import { endsByPage } from '../flow/needs.ts';
import { childId, inOrder } from './child-ids.ts';

/** The running job, as its steps see it. */
export interface DurableJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
}

const signalShape: Shape<SignalOptions> = { schema: optional(aSchema), timeout: optional(aDuration) };

/** Returns the calls of a context that outlive an attempt. */
export function createDurable(port: NodePort, job: DurableJob): DurableContext {
  return {
    step: async <Value>(name: string, work: () => Promise<Value> | Value): Promise<Value> => {
      throwProblems('configuration', 'ctx.step(name, work)', optionProblems({ work }, { work: aFunction }));
      const entry = await port.begin(name, 'step');
      if (entry?.kind === 'step') return entry.value as Value;
      const value = await work();
      const text = value === undefined ? undefined : storableJson(value);
      await port.keep(name, text);
      // the same as later attempts get
      return (text === undefined ? undefined : JSON.parse(text)) as Value;
    },
    sleep: async (name, duration) => {
      const ms = durationMs(duration, 'ctx.sleep');
      await port.begin(name, 'sleep');
      await port.sleep(name, ms);
    },
    all: async (name, jobs, options = {}) =>
      (await waitForAll(port, job, { name, jobs, sameKey: options.sameKey })) as never,
    waitForSignal: (name, options = {}) => waitForSignal(port, job, name, options),
  };
}

async function waitForAll(
  port: NodePort,
  job: DurableJob,
  given: { readonly name: string; readonly jobs: readonly NewJob[]; readonly sameKey: boolean | undefined },
): Promise<readonly EndedJob[]> {
  const { name, jobs, sameKey } = given;
  throwProblems('configuration', 'ctx.all', optionProblems({ sameKey }, { sameKey: optional(aFlag) }));
  const waiting = { ...job, name };
  const entry = await port.begin(name, 'all');
  if (entry?.kind === 'all') {
    await port.wait(name, entry, waitedFlowRow(entry.flow, waiting, []));
    return endsOfAll(port, entry);
  }
  const rows = await childRows(job, jobs, sameKey);
  if (rows.length === 0) return [];
  const flow = makeId();
  const begun = { kind: 'all', flow, jobs: rows.length } as const;
  const named = rows.map((row, index) => ({ ...row, id: childId(flow, index) }));
  await port.wait(name, begun, waitedFlowRow(flow, waiting, named));
  return endsOfAll(port, begun);
}

/**
 * Checks jobs that a job waits for.
 * @throws {PgQueueError} `invalid_job`
 */
async function childRows(
  { queue, key }: DurableJob,
  jobs: readonly NewJob[],
  sameKey = false,
): Promise<readonly JobRow[]> {
  const rows = await addedRows(jobs, { key: '', needs: [] }, 'ctx.all');
  const withId = jobs.findIndex(({ options }) => options.id !== undefined);
  if (withId !== -1) {
    throw new PgQueueError(
      'invalid_job',
      `ctx.all: jobs[${withId}] has an id: the jobs of ctx.all get ids that tell their order`,
    );
  }
  const behind = rows.findIndex((row) => key !== '' && row.key === key && row.queue === queue);
  if (behind === -1 || sameKey) return rows;
  throw new PgQueueError(
    'invalid_job',
    `ctx.all: jobs[${behind}] has the queue and the key of the job that waits for it. Under a policy that is ordered they would wait for each other for ever: give it another key or queue. Where the key is not ordered, pass { sameKey: true }`,
  );
}

async function endsOfAll(
  port: NodePort,
  { flow, jobs }: Extract<FlowEntry, { readonly kind: 'all' }>,
): Promise<readonly EndedJob[]> {
  const ends: EndInStep[] = [];
  for await (const end of endsByPage((place) => port.waitedPage(flow, place))) ends.push(end);
  return inOrder(flow, jobs, ends);
}

async function waitForSignal(
  port: NodePort,
  job: DurableJob,
  name: string,
  options: SignalOptions,
): Promise<unknown> {
  throwProblems('configuration', 'ctx.waitForSignal', optionProblems(options, signalShape));
  const { schema, timeout } = options;
  const timeoutMs = timeout === undefined ? null : durationMs(timeout, 'timeout');
  const flow = signalFlowId(job.id, name);
  const entry = await port.begin(name, 'signal');
  const begun: FlowEntry = entry?.kind === 'signal' ? entry : { kind: 'signal' };
  await port.wait(name, begun, signalFlowRow(flow, { ...job, name }, timeoutMs));
  const { ends } = await port.waitedPage(flow, { after: null, max: 1 }, name);
  const [end] = ends;
  if (end === undefined) {
    const why = 'has no value: its time is over, or the wait was cancelled';
    throw new PgQueueError('signal_timeout', `the signal ${JSON.stringify(name)} ${why}`, {
      data: { job: job.id, signal: name },
    });
  }
  if (schema === undefined) return end.result;
  const checked = await schema['~standard'].validate(end.result);
  if (checked.issues === undefined) return checked.value;
  throw new ResultError(
    issueTexts(checked.issues),
    `the value of the signal ${JSON.stringify(name)} does not fit its schema`,
  );
}
