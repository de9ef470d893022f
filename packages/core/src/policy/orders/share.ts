import type { Candidate, InFlight, JobFacts, Lane } from '../snapshot.ts';
import type { Heap } from './heap.ts';
import type { Decay, Shares } from './shares.ts';
import type { Line, Standings } from './standings.ts';

/** A level of shares during one plan. */
export interface OpenLevel {
  readonly of: (job: JobFacts) => string;
  /** Above 0. */
  readonly weight: (value: string) => number;
  /** Jobs in flight that each share is guaranteed; undefined: none. */
  readonly min: ((value: string) => number) | undefined;
}

export interface ShareRules {
  readonly levels: readonly OpenLevel[];
  /** When a job is charged to its shares. `ended`: until then it is booked, by what it is expected to cost. */
  readonly charged: 'dispatched' | 'ended';
  /** What a job costs by and large. */
  readonly quantum: number;
  readonly idleCredit: number;
  readonly decay: Decay;
  readonly headOf: (lane: Lane) => Candidate | undefined;
  /** What the last plan found out of each lane, by what it stored; null where a lane's jobs may be of several shares. */
  readonly slots: WeakMap<Shares, Slots> | null;
}

/**
 * Of lanes, in their order, which child each belongs to, and its first job; -1: it has none. From one plan to the next most lanes stay the same
 * objects in the same places: of those nothing need be looked at, which for thousands of them takes most of a plan's time.
 */
export interface Slots {
  readonly lanes: readonly Lane[];
  readonly ids: readonly number[];
  readonly seqs: readonly number[];
}

/** A job in flight, and what is booked for it. */
export interface Item {
  readonly item: InFlight;
  readonly cost: number;
}

/** Where a lane stands among those of its share. */
export interface Place {
  readonly lane: Lane;
  readonly head: Candidate;
  readonly share: Share;
}

/** A share during one plan; the root, of which all of a pool are part, is one too. */
export interface Share {
  readonly name: string;
  readonly parent: Share | null;
  /** Its number among its siblings: of those of which something was stored, their column there. */
  readonly id: number;
  readonly weight: number;
  readonly min: number;
  /** How far ahead of the virtual time by what it was charged. */
  ahead: number;
  /** Cost of what is in flight and not charged yet. */
  booked: number;
  slots: number;
  /** `ahead` is its own. Else it is where one stands that comes anew. */
  known: boolean;
  /** Nothing is remembered of it, while others wait that are, and it has not been served yet. */
  arrived: boolean;
  /** Jobs of it wait. */
  waiting: boolean;
  /** Something of it was passed over in this plan. */
  passed: boolean;
  /** Those whose first job belongs to it. */
  lanes: readonly Lane[];
  /** Of the first jobs of its lanes when the plan began, the one enqueued first; -1: it has none. */
  firstSeq: number;
  inner: Inner | null;
  /** Made when a job of it goes first. */
  path: Path | null;
}

/** A share and those that it is part of, the first level's first. */
export interface Path {
  readonly names: readonly string[];
  /** What a job of this cost takes of each: jobs mostly cost the same. */
  readonly cost: number;
  readonly amounts: readonly number[];
}

/** Of a share that has come up, or has jobs in flight: what is below it. */
export interface Inner {
  /** How many levels are above it. */
  readonly depth: number;
  /** What was stored of the level below. */
  readonly stored: Shares | null;
  readonly items: Item[];
  readonly bundles: Set<string>;
  /** Null until it comes up first. */
  children: Children | null;
  /** Its children that wait, but for those of `arrivals`; on the last level null. */
  order: Line | null;
  /** Those of them that have just arrived. */
  arrivals: Line | null;
  /** The child that was served last had just arrived. */
  servedArrival: boolean;
  /** Of its lanes, on the last level only. */
  places: Heap<Place> | null;
  /** The virtual time when the plan began, and the largest start tag that was served since. */
  fromTag: number;
  servedTag: number;
  /** Cost charged to its children, or booked, in this plan. */
  spent: number;
  /** Of its children that compete, in whole units of 2^-20: so their sum does not depend on their order. */
  weights: number;
  /** Children that became known, in this order. */
  news: Share[];
  /** What was found out of its lanes. */
  slots: Slots | null;
}

/**
 * Those that wait or have jobs in flight, by their numbers. Of thousands most only wait, with one lane, and their turn does not come:
 * they are no more than a line of these columns, until something else is known of them.
 */
export interface Children {
  /** The names of which something was stored, and their numbers. */
  readonly columns: ReadonlyMap<string, number>;
  readonly stored: readonly string[];
  /** The others, numbered behind them. */
  readonly others: Map<string, number>;
  readonly names: string[];
  readonly shares: (Share | undefined)[];
  /** Of those that are nothing but a lane that waits. */
  readonly lanes: (Lane | undefined)[];
  /** How far ahead each of those is of which something was stored, when the plan begins. Null until they are remembered. */
  ahead: readonly number[] | null;
  readonly standings: Standings;
}

/** Units of `Inner.weights`. */
export const weightUnits: number = 2 ** 20;

/** What a share has none of: most have one lane, and nothing else. */
const none: never[] = [];

export function createRoot(seen: {
  readonly lanes: readonly Lane[];
  readonly items: readonly Item[];
  readonly stored: Shares | null;
}): Share {
  const root = createShare(null, { name: '', id: -1, weight: 1, min: 0 });
  root.lanes = seen.lanes;
  root.inner = createInner(0, seen.stored, [...seen.items]);
  return root;
}

export function createShare(
  parent: Share | null,
  { name, id, weight, min }: Pick<Share, 'name' | 'id' | 'weight' | 'min'>,
): Share {
  return {
    name,
    parent,
    id,
    weight,
    min,
    ahead: 0,
    booked: 0,
    slots: 0,
    known: false,
    arrived: false,
    waiting: false,
    passed: false,
    lanes: none,
    firstSeq: -1,
    inner: null,
    path: null,
  };
}

function createInner(depth: number, stored: Shares | null, items: Item[] = []): Inner {
  return {
    depth,
    stored,
    items,
    bundles: new Set(),
    children: null,
    order: null,
    arrivals: null,
    servedArrival: false,
    places: null,
    fromTag: 0,
    servedTag: -Infinity,
    spent: 0,
    weights: 0,
    news: [],
    slots: null,
  };
}

/** What is below a share, made if need be. */
export function innerOf(share: Share): Inner {
  if (share.inner !== null) return share.inner;
  const above = share.parent?.inner?.depth ?? -1;
  return (share.inner = createInner(above + 1, storedBelow(share)));
}

/** What was stored of the level below a share. */
export function storedBelow({ parent, id, inner }: Share): Shares | null {
  return inner !== null ? inner.stored : (parent?.inner?.stored?.below?.[id] ?? null);
}

/** Counts a job in flight. */
export function book(share: Share, entry: Item): void {
  const { item, cost } = entry;
  const { items, bundles } = innerOf(share);
  items.push(entry);
  share.booked += cost;
  if (item.bundle !== null && bundles.has(item.bundle)) return;
  if (item.bundle !== null) bundles.add(item.bundle);
  share.slots += 1;
}

/** The start tag of its next job: that with the smallest goes first. */
export function tagOf({ ahead, booked, weight }: Share): number {
  return ahead + booked / weight;
}

/** A job of this share of the last level goes. */
export function spend(
  share: Share,
  { charged }: ShareRules,
  { cost, member }: { readonly cost: number; readonly member: boolean },
): void {
  for (let at = share; at.parent !== null; at = at.parent) {
    const above = innerOf(at.parent);
    // out of its turn, by a guarantee or with its bundle, it says nothing about the virtual time
    if (!member && !isNeedy(at)) above.servedTag = Math.max(above.servedTag, tagOf(at));
    above.servedArrival = at.arrived;
    if (at.arrived) above.arrivals?.remove(at.id);
    at.arrived = false;
    if (!at.known) above.news.push(at);
    at.known = true;
    if (charged === 'dispatched') at.ahead += cost / at.weight;
    else at.booked += cost;
    if (!member) at.slots += 1;
    above.spent += cost;
  }
}

/** To which shares a job of this cost is charged, and how much to each. */
export function pathOf(share: Share, cost: number): Path {
  if (share.path?.cost === cost) return share.path;
  const path: Share[] = [];
  for (let at = share; at.parent !== null; at = at.parent) path.push(at);
  path.reverse();
  const names = share.path?.names ?? path.map(({ name }) => name);
  return (share.path = { names, cost, amounts: path.map(({ weight }) => cost / weight) });
}

/** Whether it stands before all that have what they are guaranteed. */
function isNeedy({ parent, id }: Share): boolean {
  const standings = parent?.inner?.children?.standings;
  return standings !== undefined && (standings.at[id] ?? -1) >= 0 && standings.needy[id] === true;
}
