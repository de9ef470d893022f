import type { NodeInfo, Status } from '@pgqueue/postgres';
import type { LiveSnapshot } from '../contract.ts';
import { flowsMax } from '../desk.ts';
import { depthsOf, flowCountsOf, warningsOf, workersOf } from '../pages/wire.ts';

const queuesMax = 100;
const nodesMax = 200;

/** Converts a status to a snapshot for the live view. */
export function snapshotOf(
  status: Status,
  { nodes, failedFlows }: { readonly nodes: readonly NodeInfo[]; readonly failedFlows: number },
): LiveSnapshot {
  const { leader, totals, queues } = status;
  return {
    at: new Date().toISOString(),
    leader: { name: leader.leader, epoch: leader.epoch },
    workers: workersOf(status),
    donePerSecond: totals.donePerSecond,
    totals: depthsOf(totals),
    flows: flowCountsOf(status, { failed: failedFlows, max: flowsMax }),
    queues: queues.slice(0, queuesMax).map((queue) => ({
      queue: queue.queue,
      paused: queue.paused,
      ...depthsOf(queue),
    })),
    nodes: nodes.slice(0, nodesMax).map(({ id, state, overdue, slots, slotsInUse, leases }) => ({
      id,
      state,
      overdue,
      slots,
      slotsInUse,
      leases,
    })),
    warnings: warningsOf(status),
  };
}
