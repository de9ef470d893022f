import { PgQueueError } from '@pgqueue/core';
import { unreachable } from '@pgqueue/core/internal';
import type { FlowState, HearingParts, Waited } from '@pgqueue/postgres/internal';
import { createFlowWaits } from '@pgqueue/postgres/internal';
import type { ResultOptions } from './results.ts';
import { waitMs } from './results.ts';
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
  readonly stop: () => Promise<void>;
}

/** Creates the waits for flows of one producer. `parts` undefined: it has no database of its own. */
export function createFlowEnds(parts: HearingParts | undefined): FlowEnds {
  const waits = parts && createFlowWaits(parts);
  return {
    ended: async (flowId, options = {}) => {
      const timeoutMs = waitMs('run.ended', options);
      if (waits === undefined) throw noDatabase('await flows');
      return endOf(await waits.wait(flowId, timeoutMs), flowId, timeoutMs);
    },
    stop: async () => waits?.stop(new PgQueueError('closed', 'this producer was closed: it awaits no flows')),
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
