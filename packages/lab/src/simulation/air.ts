import type { InFlight } from '@pgqueue/core';
import type { SimItem } from '../workloads/fleet.ts';
import type { SimLane } from './lanes.ts';

/** A work item while it is in flight. */
export interface Flying {
  readonly item: SimItem;
  readonly lane: SimLane;
  startedMs: number;
  /** Index among all work items in flight. */
  at: number;
}

/**
 * Work items in flight, as policies see them. From one plan to the next most are the same objects in the same
 * places.
 */
export interface Air {
  readonly all: readonly Flying[];
  readonly add: (item: SimItem, lane: SimLane) => Flying;
  readonly remove: (flying: Flying) => void;
  /** Marks an item as changed: a node has taken it, or other jobs have joined it. */
  readonly change: (flying: Flying) => void;
  readonly seen: () => readonly InFlight[];
}

export function createAir(): Air {
  const all: Flying[] = [];
  /** Jobs of each item: its first job, and those of its bundle. */
  const items: (readonly [InFlight, ...InFlight[]])[] = [];
  const firsts: InFlight[] = [];
  const changed = new Set<Flying>();
  let bundles = 0;
  const sizeAt = (at: number): number => items[at]?.length ?? 1;
  return {
    all,
    add: (item, lane) => {
      const flying: Flying = { item, lane, startedMs: item.dispatchedMs, at: all.length };
      all.push(flying);
      changed.add(flying);
      return flying;
    },
    remove: (flying) => {
      const { at } = flying;
      if (sizeAt(at) > 1) bundles -= 1;
      changed.delete(flying);
      const last = all.pop();
      const [lastItems, lastFirst] =
        all.length < items.length ? [items.pop(), firsts.pop()] : [undefined, undefined];
      if (last === undefined || last === flying) return;
      all[at] = last;
      last.at = at;
      if (lastItems === undefined || lastFirst === undefined) changed.add(last);
      else [items[at], firsts[at]] = [lastItems, lastFirst];
    },
    change: (flying) => void changed.add(flying),
    seen: () => {
      for (const { at, item } of [...changed].toSorted((a, b) => a.at - b.at)) {
        if (sizeAt(at) > 1) bundles -= 1;
        const seen = seeItem(item);
        [items[at], firsts[at]] = [seen, seen[0]];
        if (seen.length > 1) bundles += 1;
      }
      changed.clear();
      return bundles === 0 ? firsts.slice() : items.flat();
    },
  };
}

function seeItem({
  job,
  members,
  pool,
  node,
  dispatchedMs,
  bundle,
}: SimItem): readonly [InFlight, ...InFlight[]] {
  const { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries, flow } =
    job.facts;
  const facts = { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries };
  const state = node === null ? 'ready' : 'running';
  const place = { pool, state, node: node?.name ?? null, dispatchedMs, bundle } as const;
  const first: InFlight = flow === undefined ? { ...facts, ...place } : { ...facts, ...place, flow };
  return [first, ...members.map((member) => ({ ...member.facts, ...place }))];
}
