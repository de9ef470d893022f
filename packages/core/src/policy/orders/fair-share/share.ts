import type { Candidate, InFlight, JobFacts, Lane } from '../../snapshot.ts';
import type { Heap } from '../ranking/heap.ts';
import type { Decay, Shares } from './saved.ts';
import type { Line, Standings } from './standings.ts';
import { noSeq } from './standings.ts';

/** A level of shares during one plan. */
export interface OpenLevel {
  readonly of: (job: JobFacts) => string;
  /** Above 0. */
  readonly weight: (value: string) => number;
  /** Returns the jobs in flight that a share is guaranteed. Undefined: there are no guarantees. */
  readonly min: ((value: string) => number) | undefined;
}

export interface ShareRules {
  readonly levels: readonly OpenLevel[];
  /** Time when a job is charged to its shares. `ended`: until then its expected cost is booked. */
  readonly charged: 'dispatched' | 'ended';
  /** Typical cost of a job. */
  readonly quantum: number;
  readonly idleCredit: number;
  readonly decay: Decay;
  readonly headOf: (lane: Lane) => Candidate | undefined;
  /**
   * Results of the last plan for each lane, by the state it stored. Null if the jobs of a lane may belong to
   * several shares.
   */
  readonly slots: WeakMap<Shares, SharePlaces> | null;
}

/**
 * Child and first job of each lane, in the order of the lanes. -1: the lane has no job.
 *
 * From one plan to the next most lanes stay the same objects in the same places. For those lanes nothing is
 * computed again, which with thousands of lanes would take most of a plan's time.
 */
export interface SharePlaces {
  readonly lanes: readonly Lane[];
  readonly ids: readonly number[];
  readonly seqs: readonly number[];
}

/** A job in flight, and the cost booked for it. */
export interface BookedJob {
  readonly item: InFlight;
  readonly cost: number;
}

/** Place of a lane among the lanes of its share. */
export interface Place {
  readonly lane: Lane;
  readonly head: Candidate;
  readonly share: Share;
}

/** A share during one plan. The root stands for the whole pool. */
export interface Share {
  readonly name: string;
  readonly parent: Share | null;
  /** Number among its siblings. A stored share's number is its column in the stored state. */
  readonly id: number;
  readonly weight: number;
  readonly min: number;
  /** Lead over the virtual time, by the cost that was charged, divided by the weight. */
  ahead: number;
  /** Cost of jobs in flight that is not charged yet. */
  booked: number;
  slots: number;
  /** `ahead` is the share's own. Otherwise `ahead` is the start of a new share. */
  known: boolean;
  /** The share is new, not served yet, and competes with shares that are remembered. */
  arrived: boolean;
  /** Jobs of the share wait. */
  waiting: boolean;
  /** A job of the share was passed over in this plan. */
  passed: boolean;
  /** Lanes whose first job belongs to the share. */
  lanes: readonly Lane[];
  /** Smallest `seq` of the first jobs of its lanes when the plan began. {@link noSeq}: there are none. */
  firstSeq: number;
  inner: Inner | null;
  /** Set when a job of the share first goes. */
  path: Path | null;
}

/** Names of a share and of the shares above it, the first level first. */
export interface Path {
  readonly names: readonly string[];
  /** Cost that `amounts` was computed for. Jobs mostly cost the same. */
  readonly cost: number;
  readonly amounts: readonly number[];
}

/** The level below a share. It exists once the share has come up, or has jobs in flight. */
export interface Inner {
  /** Number of levels above. */
  readonly depth: number;
  /** Stored state of the level below. */
  readonly stored: Shares | null;
  readonly items: BookedJob[];
  /** Bundles in flight. Null: none. */
  bundles: Set<string> | null;
  /** Null until the share first comes up. */
  children: Children | null;
  /** Children that wait, except those in `arrivals`. Null on the last level. */
  order: Line | null;
  /** Waiting children that have just arrived. */
  arrivals: Line | null;
  /** The child that was served last had just arrived. */
  servedArrival: boolean;
  /** Heap of the share's lanes, on the last level only. */
  places: Heap<Place> | null;
  /** Virtual time when the plan began. `servedTag`: the largest start tag that was served since. */
  fromTag: number;
  servedTag: number;
  /** Cost charged to its children, or booked for them, in this plan. */
  spent: number;
  /**
   * Sum of the weights of the competing children, in whole units of 2^-20, so that it does not depend on
   * their order.
   */
  weights: number;
  /** Children that got a start tag of their own, in this order. */
  news: Share[];
  /** Results for its lanes, for the next plan. */
  slots: SharePlaces | null;
}

/**
 * Children of a share, by number. Most of thousands only wait, with one lane, and do not come up in a plan.
 * They take one row of these columns each, and no Share, until more is known of them.
 */
export interface Children {
  /** Column of each stored name. */
  readonly columns: ReadonlyMap<string, number>;
  readonly stored: readonly string[];
  /** Numbers of the other names, after the stored ones. */
  readonly others: Map<string, number>;
  readonly names: string[];
  readonly shares: (Share | undefined)[];
  /** Lane of each child that has no Share and waits with a single lane. */
  readonly lanes: (Lane | undefined)[];
  /** Lead of each stored child when the plan begins. Null until the state is read. */
  ahead: readonly number[] | null;
  readonly standings: Standings;
}

/** Units of `Inner.weights`. */
export const weightUnits: number = 2 ** 20;

/** Shared empty list: a share without lanes needs none of its own. */
const none: never[] = [];

export function createRoot(seen: {
  readonly lanes: readonly Lane[];
  readonly items: readonly BookedJob[];
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
    firstSeq: noSeq,
    inner: null,
    path: null,
  };
}

function createInner(depth: number, stored: Shares | null, items: BookedJob[] = []): Inner {
  return {
    depth,
    stored,
    items,
    bundles: null,
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

/** Returns the level below a share, and creates it if it does not exist. */
export function innerOf(share: Share): Inner {
  if (share.inner !== null) return share.inner;
  const above = share.parent?.inner?.depth ?? -1;
  return (share.inner = createInner(above + 1, storedBelow(share)));
}

/** Returns the stored state of the level below a share. */
export function storedBelow({ parent, id, inner }: Share): Shares | null {
  return inner !== null ? inner.stored : (parent?.inner?.stored?.below?.[id] ?? null);
}

/** Counts a job in flight. */
export function book(share: Share, entry: BookedJob): void {
  const { item, cost } = entry;
  const inner = innerOf(share);
  inner.items.push(entry);
  share.booked += cost;
  if (item.bundle !== null) {
    if (inner.bundles?.has(item.bundle) === true) return;
    (inner.bundles ??= new Set()).add(item.bundle);
  }
  share.slots += 1;
}

/** Returns the start tag of the share's next job. The smallest start tag goes first. */
export function tagOf({ ahead, booked, weight }: Share): number {
  return ahead + booked / weight;
}

/** Charges or books the job of a share of the last level, on all levels. */
export function spend(
  share: Share,
  { charged }: ShareRules,
  { cost, member }: { readonly cost: number; readonly member: boolean },
): void {
  for (let at = share; at.parent !== null; at = at.parent) {
    const above = innerOf(at.parent);
    // a job out of its turn, by a guarantee or with its bundle, does not move the virtual time
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

/** Returns the shares that a job of this cost is charged to, with the amount for each. */
export function pathOf(share: Share, cost: number): Path {
  if (share.path?.cost === cost) return share.path;
  const path: Share[] = [];
  for (let at = share; at.parent !== null; at = at.parent) path.push(at);
  path.reverse();
  const names = share.path?.names ?? path.map(({ name }) => name);
  return (share.path = { names, cost, amounts: path.map(({ weight }) => cost / weight) });
}

/** Reports whether the share goes first because it has less than it is guaranteed. */
function isNeedy({ parent, id }: Share): boolean {
  const standings = parent?.inner?.children?.standings;
  return standings !== undefined && (standings.at[id] ?? -1) >= 0 && standings.needy[id] === true;
}
