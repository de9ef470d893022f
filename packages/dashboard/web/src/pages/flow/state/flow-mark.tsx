import type { ReactNode } from 'react';
import type { FlowRow, FlowState } from '../../../../../src/contract.ts';
import type { Tone } from '../../../ui/status.tsx';
import { Mark } from '../../../ui/status.tsx';

const tones: Readonly<Record<FlowState, Tone>> = {
  open: 'accent',
  done: 'good',
  failed: 'bad',
  cancelled: 'quiet',
};

/** Shows the state of a flow. */
export function FlowMark({
  flow: { state, stopping },
}: {
  readonly flow: Pick<FlowRow, 'state' | 'stopping'>;
}): ReactNode {
  if (state === 'open' && stopping !== null) return <Mark tone="warn">being cancelled</Mark>;
  return <Mark tone={tones[state]}>{state}</Mark>;
}
