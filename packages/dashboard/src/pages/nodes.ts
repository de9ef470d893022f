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
      const tasks = Object.entries(node.tasks).map(([task, { min, max, timeoutMs, batch, isolated }]) => ({
        task,
        min,
        max,
        timeoutMs: timeoutMs ?? null,
        batch: batch === true,
        isolated: isolated === true,
      }));
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
