import { isUuid } from '@pgqueue/core/internal';
import type { FlowDetails, FlowInfo, StepInfo } from '@pgqueue/postgres';
import { waitingSteps, waitingText } from '@pgqueue/postgres/internal';
import { findFlows, readLeader, timeOfId } from '@pgqueue/postgres/internal/dashboard';
import type { FlowPage, FlowRow, FlowsPage, FlowStep, StepWaits } from '../../contract.ts';
import type { Desk } from '../../desk.ts';
import type { Parameters } from '../../http/parameters.ts';
import { Problem } from '../../problem.ts';
import { lengthOf } from '../explain.ts';
import { timeOf } from '../wire.ts';

const walkMax = 5_000;
const waitsMax = 100;

export async function flowsPage({ database }: Desk, query: Parameters): Promise<FlowsPage> {
  const state = query.oneOf('state', ['open', 'done', 'failed', 'cancelled']);
  const [name, key] = [query.text('name', 200), query.text('key', 200)];
  const [limit, after] = [query.limit(), query.uuid('after')];
  query.done();
  const found = await findFlows(database, {
    ...(state === undefined ? {} : { state }),
    ...(name === undefined ? {} : { name }),
    ...(key === undefined ? {} : { key }),
    ...(after === undefined ? {} : { after }),
    limit,
    walkMax,
  });
  return {
    items: found.flows.map(rowOf),
    next: found.next,
    lookedBackTo: found.lookedDownTo === null ? null : timeOf(timeOfId(found.lookedDownTo)),
  };
}

export async function flowPage({ database, operator, role }: Desk, id: string): Promise<FlowPage> {
  if (!isUuid(id)) throw new Problem('bad_request', 'the id of a flow is a UUID');
  const [flow, { leader }] = await Promise.all([operator.flows.show(id), readLeader(database)]);
  const waits = waitsOf(flow);
  return {
    at: new Date(flow.created.getTime() + flow.ageMs).toISOString(),
    flow: rowOf(flow),
    steps: flow.steps.map(stepOf),
    waits: waits.slice(0, waitsMax),
    moreWaits: Math.max(0, waits.length - waitsMax),
    leader,
    actions: role === 'viewer' ? [] : actionsOf(flow),
  };
}

/** Explains the steps that have not ended, open ones first: the blocked ones wait for those. */
function waitsOf({ steps }: FlowDetails): readonly StepWaits[] {
  const numbers = new Map(steps.map(({ name, step }) => [name, step]));
  const all = waitingSteps(steps);
  const inOrder = [
    ...all.filter(({ state }) => state === 'open'),
    ...all.filter(({ state }) => state !== 'open'),
  ];
  return inOrder.map((waiting) => ({
    step: numbers.get(waiting.step) ?? 0,
    text: waitingText(waiting, lengthOf),
  }));
}

function rowOf(flow: FlowInfo): FlowRow {
  const {
    id,
    name,
    key,
    uniqueKey,
    state,
    reason,
    created,
    ageMs,
    deadline,
    stopping,
    ended,
    waiter,
    progress,
  } = flow;
  return {
    id,
    name,
    key,
    uniqueKey,
    state,
    reason,
    created: timeOf(created),
    ageMs,
    deadline: timeOf(deadline),
    stopping: timeOf(stopping),
    ended: timeOf(ended),
    waiter,
    progress,
  };
}

function stepOf({ needs, due, opened, ended, ...step }: StepInfo): FlowStep {
  return {
    ...step,
    // names of the needed steps would make the answer several times as large
    needs: needs.map((need) => [need.step, need.condition] as const),
    due: timeOf(due),
    opened: timeOf(opened),
    ended: timeOf(ended),
  };
}

function actionsOf({ state, stopping, steps }: FlowDetails): FlowPage['actions'] {
  const isOpen = state === 'open' && stopping === null;
  const canSignal = steps.some((step) => step.kind === 'signal' && step.state !== 'ended' && !step.signalled);
  const canRetry =
    (isOpen || state !== 'open') &&
    (state === 'cancelled' ||
      steps.some(({ outcome, dead }) => outcome === 'failed' || outcome === 'cancelled' || dead > 0));
  return [
    ...(isOpen && canSignal ? (['signal'] as const) : []),
    ...(isOpen ? (['cancel'] as const) : []),
    ...(canRetry ? (['retry'] as const) : []),
  ];
}
