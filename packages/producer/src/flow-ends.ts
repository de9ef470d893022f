import type { Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import {
  aDuration,
  durationMs,
  optional,
  optionProblems,
  throwProblems,
  unreachable,
} from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { FlowState, Waited } from '@pgqueue/postgres/internal';
import { createWaits, readFlowStates } from '@pgqueue/postgres/internal';
import type { ResultOptions } from './results.ts';
import { noDatabase } from './writing.ts';

/** End of a flow. */
export interface FlowEnd {
  readonly outcome: 'done' | 'failed' | 'cancelled';
  /** Reason of an outcome that is not `done`, for people. */
  readonly reason: string | null;
}

/** Waits for ends of flows. Made by {@link createFlowEnds}. */
export interface FlowEnds {
  readonly ended: (flowId: string, options?: ResultOptions) => Promise<FlowEnd>;
  /** Rejects all waits. */
  readonly stop: () => void;
}

const shape: Shape<ResultOptions> = { timeout: optional(aDuration) };

/** Creates the waits for flows of one producer. No hint tells the end of a flow, so they poll. */
export function createFlowEnds(parts: {
  /** Undefined: the producer has no database of its own. */
  readonly database: Database | undefined;
  readonly observe: Observer;
  /** Checks the schema before the first statement. */
  readonly verify: (database: Database) => Promise<unknown>;
}): FlowEnds {
  const { database, observe, verify } = parts;
  const waits =
    database &&
    createWaits<FlowState>({
      look: async (ids) => {
        await verify(database);
        return new Map((await readFlowStates(database, ids)).map((state) => [state.id, state]));
      },
      hasEnded: ({ state }) => state !== 'open',
      onError: (error, retryMs) => observe({ type: 'database.error', during: 'result', error, retryMs }),
    });
  return {
    ended: async (flowId, options = {}) => {
      throwProblems('configuration', 'run.ended', optionProblems(options, shape));
      const timeoutMs = durationMs(options.timeout ?? '30s', 'timeout');
      if (waits === undefined) throw noDatabase();
      return endOf(await waits.wait(flowId, timeoutMs), flowId, timeoutMs);
    },
    stop: () => waits?.stop(new PgQueueError('closed', 'this producer was closed: it awaits no flows')),
  };
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
