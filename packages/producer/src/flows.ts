import type { AnyFlow, FlowOptions, Signal, SignalInput, StepsOf } from '@pgqueue/core';
import type { FlowRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { encodedFlow, encodedSignal, toFlowRow, toSignalValue } from '@pgqueue/core/internal';
import type { FlowStarted } from '@pgqueue/postgres/internal';
import type { FlowEnds, FlowHandle, FlowHandleOf } from './flow-ends.ts';
import { signalFlowId } from '@pgqueue/postgres/internal';
import { sendingOf, traceSend } from '@pgqueue/telemetry/internal';
import type { EnqueuerParts } from './enqueuer.ts';
import { tell } from './enqueuer.ts';
import { carriedBy, sourceTrace } from './rows.ts';
import type { WritePath } from './writing.ts';

/** One run of a flow. */
export interface FlowRun extends FlowHandle {
  /**
   * `repeated`: a flow with this id was started before. `kept`: an open flow has the unique key, and `id` is
   * the id of that one.
   */
  readonly outcome: 'started' | 'repeated' | 'kept';
}

/** A {@link FlowRun} of a flow whose steps are known. */
export interface FlowRunOf<Steps> extends FlowRun, FlowHandleOf<Steps> {
  /** See {@link FlowHandle.results}. */
  readonly results: FlowHandleOf<Steps>['results'];
}

/** Starts flows, and gives their signals. */
export interface FlowStarter {
  /**
   * Starts a flow, all of it or nothing. Everything about it is checked before any I/O. Repeated by itself after a
   * transient error, outside of transactions: its id makes that safe.
   * @throws {PgQueueError} `invalid_flow`, with all problems at once; `schema_version`, `too_many_pending`
   */
  start<Of extends AnyFlow>(flow: Of, options?: FlowOptions): Promise<FlowRunOf<StepsOf<Of>>>;
  /**
   * Gives a signal its value; the first value wins. `repeated`: it had one already, maybe by a try of this call whose answer was
   * lost. `ended`: the step or its flow has ended.
   * @param by the signal, as `signal(schema)` made it: with it, the value is checked by its schema
   * @throws {PgQueueError} `invalid_flow` (a value that does not fit), `not_found`, `schema_version`
   */
  signal<By extends Signal = Signal>(
    flowId: string,
    step: string,
    value: SignalInput<By>,
    by?: By,
  ): Promise<'signalled' | 'repeated' | 'ended'>;
  /**
   * Gives a job the value of a signal that its handler waits for by `ctx.waitForSignal`, or will wait for; the first value wins.
   * Answers as {@link signal} does. `ended`: the wait for it is over.
   * @param by a signal, as `signal(schema)` made it: with it, the value is checked by its schema
   * @throws {PgQueueError} `invalid_flow` (a value that does not fit), `not_found` (the job has ended, or never was), `installation` (it
   * is on its way to another installation: try again), `schema_version`
   */
  signalJob<By extends Signal = Signal>(
    jobId: string,
    name: string,
    value: SignalInput<By>,
    by?: By,
  ): Promise<'signalled' | 'repeated' | 'ended'>;
}

/** Parts of {@link createFlowStarter}. */
export interface FlowParts extends Omit<EnqueuerParts, 'write'> {
  readonly writing: WritePath;
  readonly handle: FlowEnds['handle'];
}

/** Checks flows, starts them, and tells of them. */
export function createFlowStarter({ writing, handle, ...parts }: FlowParts): FlowStarter {
  const { ids, underWay, codec } = parts;

  const send = async <Result>(write: () => Promise<Result>): Promise<Result> => {
    if (parts.isClosed()) throw new PgQueueError('configuration', 'this producer was closed');
    const sending = write();
    underWay.add(sending);
    try {
      return await sending;
    } finally {
      underWay.delete(sending);
    }
  };

  const started = async (row: FlowRow, fresh: boolean): Promise<FlowStarted> => {
    const [answer] = await traceSend(
      () => sendingOf(row.steps.flatMap(({ jobs }) => jobs)),
      (carried) => send(() => writing.start([carriedBy(row, carried)], { fresh })),
      () => [],
    );
    const rows = row.steps.flatMap(({ jobs, needs }) => (needs.length === 0 ? jobs : []));
    if (answer === undefined) throw new PgQueueError('invariant', 'the start of a flow got no answer');
    if (answer.outcome === 'started')
      tell(
        parts.observe,
        rows,
        rows.map(({ id }) => ({ id, outcome: 'enqueued' })),
      );
    return answer;
  };

  return {
    start: async <Of extends AnyFlow>(flow: Of, options = {}) => {
      let made = 0;
      const makeId = (): string => {
        made += 1;
        return ids.make();
      };
      let plain = await toFlowRow(flow, options, makeId);
      const fresh = plain.uniqueKey === null && made === 1 + jobsOf(plain);
      const anew = await ids.settle(() => send(parts.check));
      if (anew === true) plain = await toFlowRow(flow, options, makeId);
      const row = encodedFlow(codec, plain);
      const { id, outcome } = await started(carriedBy(row, sourceTrace(parts.trace)), fresh);
      return { ...handle<StepsOf<Of>>(id), outcome };
    },
    signal: async (flowId, step, value, by) => {
      const text = encodedSignal(codec, await toSignalValue({ flowId, step, value, by }), {
        id: flowId,
        step,
      });
      const outcome = await send(() => writing.signal({ flowId, step, value: text }));
      if (outcome !== 'unknown') return outcome;
      throw new PgQueueError(
        'not_found',
        `flow ${flowId} does not exist, or has no signal ${JSON.stringify(step)}`,
        { data: { flow: flowId, step } },
      );
    },
    signalJob: async (jobId, name, value, by) => {
      const plain = await toSignalValue({ flowId: jobId, step: name, value, by, of: 'job' });
      const text = encodedSignal(codec, plain, { id: signalFlowId(jobId, name), step: name });
      const outcome = await send(() => writing.signalJob({ job: jobId, name, value: text }));
      if (outcome !== 'unknown') return outcome;
      throw new PgQueueError('not_found', `job ${jobId} does not exist, or has ended`, {
        data: { id: jobId },
      });
    },
  };
}

function jobsOf({ steps }: FlowRow): number {
  return steps.reduce((sum, { jobs }) => sum + jobs.length, 0);
}
