import { terminalStatuses } from '@pgqueue/core/internal';
import type { JobEnd } from '../calls/results.ts';
import { jobResults } from '../calls/results.ts';
import type { FlowState } from '../calls/flow/start.ts';
import { readFlowStates } from '../calls/flow/start.ts';
import type { HearingParts, HintedWaits } from './hinted-waits.ts';
import { createHintedWaits } from './hinted-waits.ts';
import type { WaitsParts } from './waits.ts';

/** Creates waits for the results of jobs. */
export function createResultWaits(
  parts: HearingParts & Pick<WaitsParts<JobEnd>, 'pause'>,
): HintedWaits<JobEnd> {
  return createHintedWaits({
    ...parts,
    channel: 'done',
    look: (ids, exact) => jobResults(parts.database, ids, exact),
    hasEnded: ({ status }) => terminalStatuses.includes(status),
  });
}

/** Creates waits for the ends of flows. */
export function createFlowWaits(
  parts: HearingParts & Pick<WaitsParts<FlowState>, 'pause'>,
): HintedWaits<FlowState> {
  return createHintedWaits({
    ...parts,
    channel: 'flow',
    look: async (ids) => new Map((await readFlowStates(parts.database, ids)).map((flow) => [flow.id, flow])),
    hasEnded: ({ state }) => state !== 'open',
  });
}
