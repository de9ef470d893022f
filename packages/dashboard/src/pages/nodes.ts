import type { NodeInfo } from '@pgqueue/postgres';
import type { NodeRow, Nodes } from '../contract.ts';
import type { Desk } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';

const nodesMax = 500;

export async function nodesPage({ operator }: Desk, query: Parameters): Promise<Nodes> {
  const isWanted = query.namePart();
  query.done();
  const nodes = (await operator.nodes.list()).filter(({ id }) => isWanted(id));
  return {
    at: new Date().toISOString(),
    nodes: nodes.slice(0, nodesMax).map((node): NodeRow => {
      const { id, state, overdue, pool, slots, slotsInUse, leases, heartbeatAgeMs, ageMs, software } = node;
      const tasks = Object.entries(node.tasks).flatMap(([task, can]) => taskOf(task, can));
      return {
        id,
        state,
        overdue,
        pool,
        slots,
        slotsInUse,
        leases,
        tasks,
        heartbeatAgeMs,
        ageMs,
        software,
      };
    }),
    more: nodes.length > nodesMax,
  };
}

/** Returns none for a task that the row of another writer describes by null: the node runs no job of it. */
function taskOf(task: string, can: NodeInfo['tasks'][string] | null): NodeRow['tasks'] {
  if (can === null) return [];
  const { min, max, timeoutMs, batch, isolated } = can;
  return [
    { task, min, max, timeoutMs: timeoutMs ?? null, batch: batch === true, isolated: isolated === true },
  ];
}
