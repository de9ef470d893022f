import type { AnyFlow, Codec, StepName, StepsOf, StepValue } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { aText, flowLimits, throwProblems, unreachable, valueProblems } from '@pgqueue/core/internal';
import type { StepResult } from '@pgqueue/postgres';
import type { FlowState, HearingParts, Waited } from '@pgqueue/postgres/internal';
import { createFlowWaits, decoded, keptResult, listResults } from '@pgqueue/postgres/internal';
import type { ResultOptions } from './results.ts';
import { idOf, waitMs } from './results.ts';
import { noDatabase } from './writing.ts';

/** End of a flow. */
export interface FlowEnd {
  readonly outcome: 'done' | 'failed' | 'cancelled';
  /** Reason of an outcome that is not `done`, for people. */
  readonly reason: string | null;
}

/** A flow, known by its id: what `producer.flow` returns. */
export interface FlowHandle {
  readonly id: string;
  /**
   * Resolves when the flow has ended. Asks the database, after 25 ms at first, and then ever less often, down to once a second. Await
   * it after the commit of a transaction that started the flow.
   * @throws {PgQueueError} `result_timeout`; `not_found`: there is no such flow, or it ended more than seven days ago; `closed`;
   * `configuration`
   */
  ended(options?: ResultOptions): Promise<FlowEnd>;
  /**
   * Reads how a step's jobs have ended so far, in the order of job ids, a page at a time: those with a result, and those that are not
   * done. A signal has one end, its value.
   * @throws {PgQueueError} `not_found`: there is no such flow or step, or the flow ended more than seven days ago; `closed`;
   * `result_lost`: a job is done, and its result could not be stored; `key_missing`, `undecodable`: a result is encrypted, and
   * can't be decrypted here; `configuration`
   */
  results(step: string): AsyncIterable<StepResult>;
}

/** A {@link FlowHandle} of a flow whose steps are known. */
export interface FlowHandleOf<Steps> extends FlowHandle {
  /** See {@link FlowHandle.results}. */
  results<const Name extends StepName<Steps>>(step: Name): AsyncIterable<StepResult<StepValue<Steps, Name>>>;
}

/** Waits for ends of flows, and reads their results. Made by {@link createFlowEnds}. */
export interface FlowEnds {
  /** @param id in the form in which the database returns it */
  readonly handle: <Steps>(id: string) => FlowHandleOf<Steps>;
  /** `producer.flow`. */
  readonly flow: <Of extends AnyFlow>(id: string) => FlowHandleOf<StepsOf<Of>>;
  /** Rejects all waits. */
  readonly stop: () => Promise<void>;
}

/** Most results that are read at once: each has up to 1 MiB. */
const pageMax = 100;

/** Creates the waits for flows of one producer. `parts` undefined: it has no database of its own. */
export function createFlowEnds(parts: HearingParts | undefined, codec: Codec | undefined): FlowEnds {
  const waits = parts && createFlowWaits(parts);
  const closed = (): PgQueueError =>
    new PgQueueError('closed', 'this producer was closed: it awaits no flows');
  let isClosed = false;

  /** Yields results of any type: their task has checked them. */
  async function* results<Result>(flow: string, step: string): AsyncGenerator<StepResult<Result>> {
    throwProblems('configuration', 'flow.results', valueProblems(stepName, step, 'step'));
    if (parts === undefined) throw noDatabase('await flows');
    let after: string | undefined;
    do {
      if (isClosed) throw closed();
      await parts.verify();
      const bounds = {
        flow,
        step,
        limit: pageMax,
        codec,
        decode: decoded,
        ...(after === undefined ? {} : { after }),
      };
      const page = await listResults(parts.database, bounds);
      if (page === undefined) throw stepNotFound(flow, step);
      for (const end of page.items) {
        if (end.job !== null && end.outcome === 'done') keptResult(end.job, end.result);
        yield end as StepResult<Result>;
      }
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  const handle = <Steps>(id: string): FlowHandleOf<Steps> => ({
    id,
    ended: async (options = {}) => {
      const timeoutMs = waitMs('flow.ended', options);
      if (waits === undefined) throw noDatabase('await flows');
      return endOf(await waits.wait(id, timeoutMs, options.signal), id, timeoutMs);
    },
    results: (step) => results(id, step),
  });
  return {
    handle,
    flow: (id) => handle(flowIdOf(id)),
    stop: async () => {
      isClosed = true;
      await waits?.stop(closed());
    },
  };
}

/**
 * Returns the id of a flow in the form in which the database returns it.
 * @throws {PgQueueError} `configuration`: it is no UUID
 */
export function flowIdOf(given: unknown): string {
  return idOf('producer.flow', 'the id of a flow, a UUID', given);
}

const stepName = aText({ max: flowLimits.nameLengthMax });

function stepNotFound(flow: string, step: string): PgQueueError {
  return new PgQueueError(
    'not_found',
    `there is no flow ${flow} with a step ${JSON.stringify(step)}: it has no such step, its start has not committed, or it ended more than seven days ago`,
    { data: { flow, step } },
  );
}

/** Returns the end of a flow, or throws an error that says how its wait ended. */
function endOf(waited: Waited<FlowState>, id: string, timeoutMs: number): FlowEnd {
  switch (waited.kind) {
    case 'ended': {
      const { state, reason } = waited.state;
      if (state === 'open') throw new PgQueueError('invariant', `flow ${id} is open, and has not ended`);
      return { outcome: state, reason };
    }
    case 'gone':
      throw new PgQueueError(
        'not_found',
        `there is no flow ${id}: its start has not committed, or it ended more than seven days ago`,
        { data: { flow: id } },
      );
    case 'timeout':
      throw new PgQueueError(
        'result_timeout',
        `flow ${id} has not ended within ${timeoutMs} ms: it goes on, and can be awaited again`,
        { data: { flow: id, timeoutMs }, cause: waited.error },
      );
    default:
      return unreachable(waited);
  }
}
