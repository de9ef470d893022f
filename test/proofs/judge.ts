import { mostAtOnce, outOfOrder, overlapping, worstWindow } from './checks.ts';
import { longestIdle } from './idle.ts';
import type { RecordedItem } from './recorder.ts';
import type { World } from './worlds.ts';

/** Result of a world; `breaches` must be empty, and `idleMs` small. */
export interface WorldReport {
  readonly breaches: readonly string[];
  /**
   * Longest time, in milliseconds, during which a slot was free while some job could go; null if a rate also
   * holds jobs.
   */
  readonly idleMs: number | null;
  readonly jobs: number;
}

/** Milliseconds by which a snapshot may lag behind a commit, beside the duration of the tick itself. */
const graceMs = 100;

function laneOf({ queue, key }: RecordedItem): string {
  return `${queue} ${key}`;
}

/** Checks a recorded run of a world: the rules that it breaks, and its idle time. */
export function judge(
  world: World,
  items: readonly RecordedItem[],
  {
    created,
    pauses = [],
    lagMs = 0,
  }: {
    readonly created: ReadonlyMap<string, number>;
    readonly pauses?: readonly { readonly fromMs: number; readonly toMs: number }[];
    readonly lagMs?: number;
  },
): Pick<WorldReport, 'breaches' | 'idleMs'> {
  const { limit, rate: most, keyConcurrency, slots } = world;
  const crowds = (by: (item: RecordedItem) => string): ReturnType<typeof mostAtOnce> =>
    mostAtOnce(items.map((item) => ({ group: by(item), beginMs: item.insertedMs, endMs: item.endedMs })));
  const above = (name: string, by: (item: RecordedItem) => string, top: number): readonly string[] =>
    crowds(by)
      .filter(({ count }) => count > top)
      .map(({ group, count }) => `${name} ${group}: ${count} of ${top}`);
  const excess =
    most === null
      ? undefined
      : worstWindow(
          items.map(({ dispatchedMs }) => dispatchedMs),
          most,
        );
  const waitingMs = ({ id, tries }: RecordedItem): number =>
    tries > 0 ? Infinity : (created.get(id) ?? Infinity);
  const wrong = outOfOrder(
    items
      .filter(({ tries }) => tries === 0)
      .map((item) => ({ ...item, lane: laneOf(item), waitingMs: waitingMs(item) })),
    graceMs + lagMs,
  );
  const limitOf = (group: string): number => (group.includes(' ') ? (keyConcurrency ?? Infinity) : limit);
  const lived = items.map((item) => ({
    groups: [item.tenant, ...(keyConcurrency === null ? [] : [laneOf(item)])],
    waitingMs: waitingMs(item),
    dispatchedMs: item.insertedMs,
    endedMs: item.endedMs,
  }));
  return {
    breaches: [
      ...above('tenant', ({ tenant }) => tenant, limit),
      ...(keyConcurrency === null ? [] : above('key', laneOf, keyConcurrency)),
      ...overlapping(
        items.map(({ id, insertedMs, endedMs }) => ({ group: id, beginMs: insertedMs, endMs: endedMs })),
      ).map((id) => `twice: ${id}`),
      // times have a resolution of one microsecond: a thousandth of a job is a rounding error
      ...(excess !== undefined && excess.jobs > 1e-3
        ? [`rate: ${excess.jobs.toFixed(3)} jobs above it`]
        : []),
      ...wrong.map(([earlier, later]) => `order: ${later.lane} seq ${earlier.seq} went after ${later.seq}`),
    ],
    idleMs: most === null ? longestIdle(lived, { slots, limitOf, pauses }).ms : null,
  };
}
