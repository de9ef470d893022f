import type { Database } from '@pgqueue/postgres';
import type { Target, TickInput, TickRead } from '@pgqueue/postgres/internal';
import { inSnapshot, readItemFacts, readTick, readTickState, settledMax } from '@pgqueue/postgres/internal';
import type { Behind } from '../state/background-rescan.ts';
import type { Load } from '../state/consumption.ts';
import { capability } from '../state/consumption.ts';
import type { InFlightItems } from '../state/items/in-flight.ts';
import type { LeaderState } from '../state/leader-state.ts';
import type { ReadRequest } from './snapshot.ts';
import { loadOf } from './snapshot.ts';

/**
 * Reports whether all waiting jobs are known and no scan is pending. It stays true until a job is enqueued.
 */
export function knowsAll({ laneCache, lookahead, caughtUp }: LeaderState): boolean {
  return caughtUp && laneCache.complete() && !lookahead.walking();
}

/** Parameters of a tick's read. */
export interface Looking extends ReadRequest {
  readonly startedAt: number;
  readonly due: boolean;
  /** True to read only the work items in flight, because all waiting jobs are known. */
  readonly brief: boolean;
}

/** Reads a snapshot and updates the leader's state from it. */
export async function look(
  {
    database,
    questionsAfter,
    behind,
  }: { readonly database: Database; readonly questionsAfter: () => number; readonly behind: Behind },
  state: LeaderState,
  looking: Looking,
): Promise<{ readonly read: TickRead; readonly load: Load }> {
  const { laneCache, inFlight, consumption, lookahead, cursors, feeds, openPages } = state;
  const { want, keys, rows: outOfTurn, startedAt, due, brief } = looking;
  const itemsFrom = itemsFromNow(state, startedAt);
  const page = openPages.ask();
  const input: TickInput | undefined = brief
    ? undefined
    : {
        want,
        keys,
        ...lookahead.starts(startedAt),
        ranges: cursors.ranges(startedAt, inFlight.flying()),
        ...laneCache.ask(state.nowMs, { lanes: lookahead.lanes(), rows: outOfTurn }),
        ...page,
        settled: feeds,
        itemsFrom,
        items: inFlight.before(itemsFrom),
        due,
        questionsAfter: questionsAfter(),
      };
  const { read, jobs: unreadable } = state.unreadable.without(
    await readKnown(database, { inFlight, feeds, itemsFrom }, input),
    startedAt,
  );
  noteItems(state, itemsFrom, startedAt);
  behind.look(state, startedAt);
  const now = read.state.now;
  const lanes =
    read.config === null
      ? read.lanes
      : cursors.saw({
          lanes: read.lanes,
          enqueuers: read.enqueuers,
          nowMs: startedAt,
          tookMs: performance.now() - startedAt,
        });
  if (read.config !== null) state.lastLook = { read, config: read.config, atMs: performance.now() };
  [state.ended, state.owesLook] = [[], false];
  state.nowMs = now;
  if (feeds) {
    const whole = read.state.settled.length < settledMax;
    state.settled = [...state.settled, ...inFlight.settled(read.state.settled, whole, now)];
  }
  if (brief) laneCache.age();
  else {
    state.unheard.read(lanes);
    openPages.saw(lanes, { page, keys, nowMs: startedAt });
    laneCache.see(lookahead.shown(lanes), { keys, nowMs: startedAt, open: page !== undefined, unreadable });
  }
  state.moving.saw(read.state.moving);
  const load = loadOf(read, inFlight.flying().items);
  consumption.sample(load);
  rememberNodes(state, read.state.nodes);
  return { read: { ...read, lanes }, load };
}

/**
 * Reads a snapshot in which every work item is known. If some are unknown, or a batch that is read by its
 * position was taken apart, everything is read again together with the facts of those items, in one snapshot
 * of the database. With facts of a later one, an item that ended between the two would be missing, while the
 * lanes of the first do not show that its job waits for a retry.
 */
async function readKnown(
  database: Database,
  {
    inFlight,
    feeds,
    itemsFrom,
  }: { readonly inFlight: InFlightItems; readonly feeds: boolean; readonly itemsFrom: number },
  input: TickInput | undefined,
): Promise<TickRead> {
  const once = async (target: Target) => {
    const strays = { itemsFrom, items: inFlight.before(itemsFrom) };
    const read =
      input === undefined
        ? await readBriefly(target, { settled: feeds, ...strays })
        : await readTick(target, { ...input, ...strays });
    return { read, ...inFlight.see(read.state.items, { settlements: feeds, from: itemsFrom }) };
  };
  const first = await once(database);
  if (first.unknown.length + first.parts.length === 0) return first.read;
  return inSnapshot(database, async (target) => {
    const seen = await once(target);
    const parts = [...first.parts, ...seen.parts];
    const { unknown } = seen;
    const facts = await readItemFacts(target, [...unknown, ...parts]);
    inFlight.learn(facts, { items: seen.read.state.items, unknown });
    // a part lies before the positions that are read, so only another read tells which node holds it
    const found = new Set(facts.map(({ position }) => position));
    return parts.some((position) => found.has(position)) ? (await once(target)).read : seen.read;
  });
}

async function readBriefly(
  database: Target,
  input: Pick<TickInput, 'settled' | 'itemsFrom' | 'items'>,
): Promise<TickRead> {
  return {
    state: await readTickState(database, input),
    enqueuers: null,
    config: null,
    tallies: null,
    due: null,
    lanes: [],
    questions: [],
  };
}

/**
 * Interval of the full item rescan, in milliseconds. It starts where the scan started right after the
 * previous rescan, so items believed gone are checked once more.
 */
const rescanMs = 1_000;

function itemsFromNow({ items, inFlight }: LeaderState, nowMs: number): number {
  return nowMs >= items.rescanAt ? items.floor : inFlight.from();
}

/** Records a finished rescan and schedules the next. */
function noteItems({ items, inFlight }: LeaderState, from: number, nowMs: number): void {
  if (from <= items.floor) [items.floor, items.rescanAt] = [inFlight.from(), nowMs + rescanMs];
}

/**
 * Remembers the nodes. If their capabilities changed, jobs that no node could run may have a place, so the
 * lookahead starts over.
 */
function rememberNodes(state: LeaderState, nodes: LeaderState['nodes']): void {
  state.nodes = nodes;
  const able = nodes.map((node) => `${node.pool} ${capability(node)}`).toSorted();
  const capabilities = [...new Set(able)].join('\n');
  if (capabilities !== state.capabilities) state.lookahead.reset();
  state.capabilities = capabilities;
}
