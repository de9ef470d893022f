// Limits, rates and order, by what the database recorded of its work items.
import { mostAtOnce, outOfOrder, overlapping, worstWindow } from '../../proofs/checks.ts';
import type { EventOf } from './history.ts';
import type { Traces } from './traces.ts';

export interface Limits {
  readonly items: number;
  readonly exceeded: readonly string[];
  /** Two work items of one job at one time. */
  readonly overlapping: readonly string[];
  readonly outOfOrder: readonly string[];
}

type Item = EventOf<'item'>;

/** The clocks of the machine and of the database may differ by this. */
const graceMs = 200;
/** The database's clock was set back where dispatches, in their order, go back by more. */
const setBackMs = 1_000;

export function limitsOf(traces: Traces): Limits {
  const { groupMax = Infinity, orderedQueues = [], rate } = traces.facts;
  const items = traces.events
    .filter((event) => event.type === 'item')
    .toSorted((a, b) => a.position - b.position);
  const ordered = items.filter(({ queue }) => orderedQueues.includes(queue));
  const crowds = (of: readonly Item[], by: (item: Item) => string, most: number): readonly string[] =>
    mostAtOnce(of.map((item) => ({ group: by(item), beginMs: item.from, endMs: item.to })))
      .filter(({ count }) => count > most)
      .map(({ group, count }) => `${group}: ${count} of ${most}`);
  return {
    items: items.length,
    exceeded: [
      ...crowds(items, ({ group }) => `group ${group}`, groupMax),
      ...crowds(ordered, ({ queue, key }) => `key ${queue} ${key}`, 1),
      ...(rate === undefined
        ? []
        : excessOf(
            items.filter(({ queue }) => queue === rate.queue),
            rate,
          )),
    ],
    overlapping: overlapping(items.map(({ id, from, to }) => ({ group: id, beginMs: from, endMs: to }))),
    outOfOrder: orderOf(traces, ordered),
  };
}

function excessOf(
  items: readonly Item[],
  rate: { readonly perSecond: number; readonly burst: number },
): readonly string[] {
  return stretches(items.map(({ dispatchedMs }) => dispatchedMs)).flatMap((times) => {
    const { jobs, fromMs, toMs } = worstWindow(times, rate);
    // the times are microseconds: a thousandth of a job is rounding
    return jobs > 1e-3
      ? [`rate: ${jobs.toFixed(3)} jobs above it within ${Math.round(toMs - fromMs)} ms`]
      : [];
  });
}

/** Cut where the clock was set back: no window reaches over that. */
function stretches(times: readonly number[]): readonly (readonly number[])[] {
  const parts: number[][] = [[]];
  let last = -Infinity;
  for (const at of times) {
    if (at < last - setBackMs) parts.push([]);
    parts.at(-1)?.push(at);
    last = at;
  }
  return parts.filter(({ length }) => length > 0);
}

/** First attempts only, by the time at which each was acknowledged; a false clock of the database leaves nothing to compare. */
function orderOf(traces: Traces, ordered: readonly Item[]): readonly string[] {
  const { facts, jobs, spoils } = traces;
  if (spoils.some(({ what }) => what === 'clock')) return [];
  const snapshotMs = snapshotTimes(traces, new Set(ordered.map(({ id }) => id)));
  const turns = ordered
    .filter(({ tries }) => tries === 0)
    .map((item) => ({
      lane: `${item.queue} ${item.key}`,
      priority: 0,
      seq: item.seq,
      position: item.position,
      dispatchedMs: snapshotMs(item),
      waitingMs: (jobs.get(item.id)?.ackedAt ?? Infinity) + facts.epochMs,
    }));
  return outOfOrder(turns, graceMs).map(
    ([earlier, later]) => `${later.lane}: seq ${earlier.seq} went after ${later.seq}`,
  );
}

/**
 * Returns the time at which the read for an item's plan was sent, by the database's clock: jobs committed before it are known to
 * the plan. Its write may come much later, beside other work or in a process that was stopped.
 */
function snapshotTimes({ events, facts }: Traces, ids: ReadonlySet<string>): (item: Item) => number {
  const plans = Map.groupBy(
    events
      .filter((event) => event.type === 'dispatch')
      .flatMap(({ at, readAt, ids: all }) =>
        all.filter((id) => ids.has(id)).map((id) => ({ id, at: at + facts.epochMs, readAt })),
      ),
    ({ id }) => id,
  );
  return ({ id, dispatchedMs }) => {
    const plan = plans.get(id)?.findLast(({ at }) => at < dispatchedMs + graceMs);
    return Math.min(dispatchedMs, plan === undefined ? Infinity : plan.readAt + facts.epochMs);
  };
}
