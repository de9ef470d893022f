import { unreachable } from '@pgqueue/core/internal';
import type { FlowAction, FlowActionRequest, FlowActionResult } from '../contract.ts';
import type { Desk } from '../desk.ts';
import { checked } from '../http/body.ts';
import type { Actions } from './actions.ts';
import { act } from './actions.ts';
import { bodies } from './bodies.ts';

const none = { jobs: 0, gone: 0, holder: null } as const;

/** Runs an action on a flow. The audit notes that a signal was given, and not its value. */
export function flowAction(actions: Actions, body: unknown): Promise<FlowActionResult> {
  const { id, action } = checked(body, bodies.flow) as FlowActionRequest;
  const what = { action: `flows.${action.kind}`, target: id.toLowerCase(), details: detailsOf(action) };
  return act(actions, what, async () => {
    const value = await run(actions.desk, id, action);
    const { verdict, jobs, gone } = value;
    return { value, result: action.kind === 'retry' ? { verdict, jobs, gone } : { verdict } };
  });
}

function detailsOf(action: FlowAction): object {
  switch (action.kind) {
    case 'signal':
      return { step: action.step };
    case 'cancel':
      return action.reason === undefined ? {} : { reason: action.reason };
    case 'retry':
      return action.step === undefined ? {} : { step: action.step };
    default:
      return unreachable(action);
  }
}

async function run({ operator: { flows } }: Desk, id: string, action: FlowAction): Promise<FlowActionResult> {
  switch (action.kind) {
    case 'signal':
      return { verdict: await flows.signal(id, action.step, action.value), ...none };
    case 'cancel': {
      const { reason } = action;
      return { verdict: await flows.cancel(id, reason === undefined ? {} : { reason }), ...none };
    }
    case 'retry':
      return flows.retry(id, action.step === undefined ? {} : { step: action.step });
    default:
      return unreachable(action);
  }
}
