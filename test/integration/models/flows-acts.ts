import { randomUUID } from 'node:crypto';
import { advanceFlows, cancel, redrive, stopJobs } from '@pgqueue/postgres/internal';
import { expect } from 'vitest';
import type { Condition } from '../../proofs/flows/graph.ts';
import type { Ground, Member } from '../sql/support.ts';
import type { Model, ModelFlow, ModelJob, ModelStep } from './flows-support.ts';
import {
  advance as advanceFlow,
  cancel as cancelJob,
  countsOf,
  retry,
  stop,
  stopJobs as stopAll,
} from './flows-support.ts';

/** Chooses among values, by the random numbers that were drawn for the step. */
export type Pick = <Value>(from: readonly Value[]) => Value | undefined;

interface Real {
  readonly ground: Ground;
  readonly node: Member;
  readonly pick: Pick;
  /** Names of the results seen so far, in addition to the names of the steps. */
  readonly seen: Set<string>;
}

/**
 * Applies one operation to the database and to the model, and compares the answers. Resolves to the
 * operation's name; undefined if there was nothing to do.
 */
type Act = (model: Model, real: Real) => Promise<string | undefined>;

const flowsMax = 3;

interface Found {
  readonly flow: ModelFlow;
  readonly step: ModelStep;
  readonly job: ModelJob;
}

function jobsIn({ flows }: Model, state: ModelJob['state']): readonly Found[] {
  return flows.flatMap((flow) =>
    flow.steps.flatMap((step) =>
      step.jobs.filter((job) => job.state === state).map((job) => ({ flow, step, job })),
    ),
  );
}

const newJob = (state: ModelJob['state']): ModelJob => ({
  id: randomUUID(),
  state,
  token: undefined,
  told: false,
});
const given = (jobs: readonly ModelJob[]): readonly object[] => jobs.map(({ id }) => ({ id, task: 'hello' }));

function newStep(index: number, pick: Pick): ModelStep {
  const kind = pick(['jobs', 'jobs', 'jobs', 'signal', 'timer'] as const) ?? 'jobs';
  const needs = new Map<number, Condition>();
  for (let n = index === 0 ? 0 : (pick([1, 2, 0, 1, 2, 3]) ?? 0); n > 0; n -= 1) {
    const needed = pick(Array.from({ length: index }, (_, one) => one)) ?? 0;
    needs.set(needed, pick(['done', 'failed', 'done', 'ended', 'done'] as const) ?? 'done');
  }
  const blocked = needs.size > 0;
  const jobs = kind === 'jobs' ? (pick([1, 2, 0, 1, 3]) ?? 1) : 0;
  return {
    name: `step-${index}`,
    kind,
    wants: pick(['all', 'any', 'all'] as const) ?? 'all',
    needs: [...needs],
    stopAfter: kind === 'jobs' ? (pick([null, 1, null, 2]) ?? null) : null,
    jobs: Array.from({ length: jobs }, () => newJob(blocked ? 'later' : 'waiting')),
    state: blocked ? 'blocked' : 'open',
    outcome: undefined,
    stop: false,
    due: false,
    valued: false,
  };
}

/** A flow that is done although its first step may fail, since the second takes any end: chance alone seldom makes one. */
function withCleanUp(pick: Pick): readonly ModelStep[] {
  const plain = { kind: 'jobs', stopAfter: null } as const;
  return [
    { ...newStep(0, pick), ...plain, jobs: [newJob('waiting')] },
    { ...newStep(1, pick), ...plain, needs: [[0, 'ended']], jobs: [], state: 'blocked' },
  ];
}

const start: Act = async (model, { ground, pick }) => {
  if (model.flows.length === flowsMax) return undefined;
  const steps =
    pick([false, false, true]) === true
      ? withCleanUp(pick)
      : Array.from({ length: pick([3, 4, 5, 6, 2]) ?? 3 }, (_, index) => newStep(index, pick));
  const flow: ModelFlow = { id: randomUUID(), steps, state: 'open', stopping: false };
  const row = JSON.stringify({
    id: flow.id,
    name: 'flow',
    steps: steps.map(({ name, kind, wants, needs, stopAfter, jobs }) => ({
      name,
      kind,
      wants,
      needs,
      stop_after: stopAfter,
      delay_ms: kind === 'timer' ? 3_600_000 : null,
      jobs: given(jobs),
    })),
  });
  const call = (): Promise<unknown> => ground.one('select outcome from pgqueue.start_flow($1::jsonb)', [row]);
  expect(await call()).toBe('started');
  expect(await call()).toBe('repeated');
  model.flows.push(flow);
  return 'start';
};

const begin: Act = async (model, { ground, node, pick }) => {
  const found = pick(jobsIn(model, 'waiting'));
  if (found === undefined) return undefined;
  const { job } = found;
  const token = randomUUID();
  expect(await ground.dispatch([job.id])).toEqual(new Set([job.id]));
  expect((await ground.claim(node, 1, token)).map(({ id }) => id)).toEqual([job.id]);
  Object.assign(job, { state: 'running', token });
  return 'begin';
};

const settle: Act = async (model, { ground, pick }) => {
  const found = pick(jobsIn(model, 'running'));
  if (found === undefined) return undefined;
  const { job } = found;
  const outcome = pick(['done', 'dead', 'done', 'cancelled', 'done'] as const) ?? 'done';
  const lease = { id: job.id, token: job.token ?? '' };
  expect([...(await ground.settle([lease], outcome)).values()]).toEqual([outcome]);
  job.state = outcome;
  expect((await ground.settle([lease], outcome)).size).toBe(0);
  return `settle ${outcome}`;
};

const add: Act = async (model, { ground, pick }) => {
  const found = pick(jobsIn(model, 'running'));
  if (found === undefined) return undefined;
  const { step, job } = found;
  const jobs = Array.from({ length: pick([1, 2]) ?? 1 }, () => newJob('waiting'));
  const fans = pick([true, false]) ?? false;
  const call = (token: string | undefined): Promise<unknown> =>
    fans
      ? ground.one('select pgqueue.fan_out($1, $2, $3, $4::jsonb)', [
          job.id,
          token,
          '{"n": 1}',
          JSON.stringify(given(jobs)),
        ])
      : ground.one('select pgqueue.add_jobs($1, $2, $3::jsonb)', [
          job.id,
          token,
          JSON.stringify(given(jobs)),
        ]);
  expect(await call(randomUUID())).toBe(false);
  expect(await call(job.token)).toBe(true);
  step.jobs.push(...jobs);
  if (fans) job.state = 'done';
  // again, as after a lost reply
  expect(await call(job.token)).toBe(!fans);
  return fans ? 'fan out' : 'add';
};

const advance: Act = async (model, { ground, seen }) => {
  for (let more = true; more;) {
    ({ more } = await advanceFlows(ground.database, ground.leader(), { from: 0, max: 500, walk: null }));
  }
  for (const flow of model.flows) {
    const before = flow.steps.map(({ state }) => state);
    advanceFlow(flow);
    for (const [index, { outcome, state, kind, wants, needs }] of flow.steps.entries()) {
      if (before[index] === state) continue;
      seen.add(outcome === 'skipped' ? `${kind} skipped` : `${kind} ${state}`);
      if (wants === 'any' && needs.length > 1 && before[index] === 'blocked')
        seen.add(`any ${outcome ?? state}`);
    }
    seen.add(`flow ${flow.state}`);
  }
  const rows = await ground.sql(
    'select flow, step, added, done, failed, other from pgqueue.flow_step order by flow, step',
  );
  expect(rows).toEqual(
    model.flows
      .toSorted((a, b) => a.id.localeCompare(b.id))
      .flatMap(({ id, steps }) => steps.map((step, index) => ({ flow: id, step: index, ...countsOf(step) }))),
  );
  expect(await ground.one('select count(*)::integer from pgqueue.flow_tally')).toBe(0);
  return 'advance';
};

const signal: Act = async (model, { ground, pick }) => {
  const found = pick(
    model.flows.flatMap((flow) =>
      flow.steps.filter(({ kind }) => kind === 'signal').map((step) => ({ flow, step })),
    ),
  );
  if (found === undefined) return undefined;
  const { flow, step } = found;
  const over = step.state === 'ended' || flow.state !== 'open' || flow.stopping;
  const expected = step.valued ? 'repeated' : over ? 'ended' : 'signalled';
  expect(await ground.one('select pgqueue.signal_flow($1, $2, $3)', [flow.id, step.name, '1'])).toBe(
    expected,
  );
  if (expected === 'signalled') step.valued = true;
  return `signal ${expected}`;
};

/** An hour passes for one timer. */
const pass: Act = async (model, { ground, pick }) => {
  const found = pick(
    model.flows.flatMap((flow) =>
      flow.steps.flatMap((step, index) =>
        step.kind === 'timer' && step.state === 'open' ? [{ flow, step, index }] : [],
      ),
    ),
  );
  if (found === undefined) return undefined;
  found.step.due = true;
  await ground.sql('update pgqueue.flow_step set due = clock_timestamp() where flow = $1 and step = $2', [
    found.flow.id,
    found.index,
  ]);
  return 'pass';
};

const cancelFlow: Act = async (model, { ground, pick }) => {
  const flow = pick(model.flows);
  if (flow === undefined) return undefined;
  const answer = stop(flow) ? 'cancelling' : 'ended';
  expect(await ground.one('select pgqueue.cancel_flow($1)', [flow.id])).toBe(answer);
  return `cancel flow: ${answer}`;
};

const stopThem: Act = async (model, { ground }) => {
  const stopped = stopAll(model);
  expect(await stopJobs(ground.database, ground.leader(), 500)).toBe(stopped);
  return stopped > 0 ? 'stop' : undefined;
};

const retryFlow: Act = async (model, { ground, pick }) => {
  const flow = pick(model.flows);
  if (flow === undefined) return undefined;
  const from = pick([null, null, ...flow.steps.keys()]) ?? null;
  const stopping = flow.state === 'open' && flow.stopping;
  const was = flow.state;
  const back = stopping ? undefined : retry(flow, from);
  const outcome = stopping ? 'stopping' : back === undefined ? 'nothing' : 'retried';
  const [row] = await ground.sql('select outcome, jobs, gone from pgqueue.retry_flow($1, $2)', [
    flow.id,
    from === null ? null : (flow.steps[from]?.name ?? ''),
  ]);
  expect(row).toEqual({ outcome, jobs: back ?? 0, gone: 0 });
  return `retry ${outcome === 'retried' ? `of ${was}` : outcome}`;
};

const redriveOne: Act = async (model, { ground, pick }) => {
  const found = pick(jobsIn(model, 'dead'));
  if (found === undefined) return undefined;
  expect(await redrive(ground.database, [found.job.id])).toEqual(new Set([found.job.id]));
  [found.job.state, found.job.told] = ['waiting', false];
  return 'redrive';
};

const cancelOne: Act = async (model, { ground, pick }) => {
  const found = pick([...jobsIn(model, 'waiting'), ...jobsIn(model, 'running')]);
  if (found === undefined) return undefined;
  const { job } = found;
  const verdict = job.state === 'running' ? 'signalled' : 'cancelled';
  expect([...(await cancel(ground.database, [job.id])).values()]).toEqual([verdict]);
  cancelJob(job);
  return `cancel of a job: ${verdict}`;
};

/** The operations, each with its frequency. */
export const acts: Readonly<Record<string, readonly [number, Act]>> = {
  start: [4, start],
  begin: [10, begin],
  settle: [10, settle],
  add: [2, add],
  advance: [12, advance],
  signal: [3, signal],
  pass: [3, pass],
  cancelFlow: [1, cancelFlow],
  stopThem: [2, stopThem],
  retryFlow: [3, retryFlow],
  redriveOne: [1, redriveOne],
  cancelOne: [1, cancelOne],
};
