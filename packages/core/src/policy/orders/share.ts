import type { Candidate, InFlight, JobFacts, Lane } from '../snapshot.ts';
import type { Heap } from './heap.ts';
import type { Decay, Shares } from './shares.ts';
import { decayOf } from './shares.ts';

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
  readonly idleCredit: number;
  readonly decay: Decay;
  readonly headOf: (lane: Lane) => Candidate | undefined;
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

/** Where a share stands among its siblings. Once something of it changes it has another; the old one is passed over. */
export interface Standing {
  readonly share: Share;
  /** It, or one below it, has fewer jobs in flight than it is guaranteed. */
  readonly needy: boolean;
  readonly tag: number;
  /** Of the job that would go. */
  readonly seq: number;
}

/** A share during one plan; the root, of which all of a pool are part, is one too. */
export interface Share {
  readonly name: string;
  readonly parent: Share | null;
  /** How many levels are above it. */
  readonly depth: number;
  readonly weight: number;
  readonly min: number;
  /** What was stored of the level below. */
  stored: Shares | null;
  /** How far ahead of the virtual time by what it was charged. */
  ahead: number;
  /** Cost of what is in flight and not charged yet. */
  booked: number;
  slots: number;
  bundles: Set<string> | null;
  /** `ahead` is its own. Else it is where one stands that comes anew. */
  known: boolean;
  /** Jobs of it wait. */
  waiting: boolean;
  /** Something of it was passed over in this plan. */
  passed: boolean;
  standing: Standing | null;
  lanes: readonly Lane[];
  /** Of the first jobs of its lanes when the plan began, the one enqueued first. */
  firstSeq: number;
  items: readonly Item[];
  /** Null until it comes up first. */
  children: Map<string, Share> | null;
  /** Of its children; on the last level null. */
  order: Heap<Standing> | null;
  /** Of its lanes, on the last level only. */
  places: Heap<Place> | null;
  /** The virtual time when the plan began, and the largest start tag that was served since. */
  fromTag: number;
  servedTag: number;
  /** Cost charged to its children, or booked, in this plan. */
  spent: number;
  /** Of its children that wait, in whole units of 2^-20: so their sum does not depend on their order. */
  weights: number;
  /** Children that became known, in this order. */
  news: readonly Share[];
}

/** Units of `Share.weights`. */
export const weightUnits: number = 2 ** 20;

/** What a share has none of: most have a lane, and nothing else. */
const none: never[] = [];

export function createRoot(seen: Pick<Share, 'lanes' | 'items' | 'stored'>): Share {
  return Object.assign(createShare({ name: '', parent: null, weight: 1, min: 0 }), seen);
}

function createShare({
  name,
  parent,
  weight,
  min,
}: Pick<Share, 'name' | 'parent' | 'weight' | 'min'>): Share {
  return {
    name,
    parent,
    depth: parent === null ? 0 : parent.depth + 1,
    weight,
    min,
    stored: null,
    ahead: 0,
    booked: 0,
    slots: 0,
    bundles: null,
    known: false,
    waiting: false,
    passed: false,
    standing: null,
    lanes: none,
    firstSeq: Infinity,
    items: none,
    children: null,
    order: null,
    places: null,
    fromTag: 0,
    servedTag: -Infinity,
    spent: 0,
    weights: 0,
    news: none,
  };
}

/** The child of that name, made if need be. */
export function childOf(share: Share, level: OpenLevel, name: string, rules: ShareRules): Share {
  const children = (share.children ??= new Map<string, Share>());
  const known = children.get(name);
  if (known !== undefined) return known;
  const weight = level.weight(name);
  const child = createShare({ name, parent: share, weight, min: level.min?.(name) ?? 0 });
  child.ahead = share.fromTag - rules.idleCredit / weight;
  children.set(name, child);
  // it comes up in the middle of a plan, by a job of another share's lane
  if (share.order !== null) remember(share, share.stored?.names.indexOf(name) ?? -1, child, rules);
  return child;
}

/** Its lanes, jobs in flight and news are made as there are any. */
function grown<Value>(values: readonly Value[], value: Value): readonly Value[] {
  if (values.length === 0) return [value];
  (values as Value[]).push(value);
  return values;
}

/** A lane whose first job belongs to it. */
export function addLane(share: Share, lane: Lane, head: Candidate): void {
  share.lanes = grown(share.lanes, lane);
  share.firstSeq = Math.min(share.firstSeq, head.seq);
  share.waiting = true;
}

/** Counts a job in flight. */
export function book(share: Share, entry: Item): void {
  const { item, cost } = entry;
  share.items = grown(share.items, entry);
  share.booked += cost;
  if (item.bundle !== null) {
    const bundles = (share.bundles ??= new Set<string>());
    if (bundles.has(item.bundle)) return;
    bundles.add(item.bundle);
  }
  share.slots += 1;
}

/** The start tag of its next job: that with the smallest goes first. */
export function tagOf({ ahead, booked, weight }: Share): number {
  return ahead + booked / weight;
}

function remember({ stored }: Share, index: number, child: Share, { decay }: ShareRules): void {
  const ahead = stored?.ahead[index];
  if (stored === null || ahead === undefined) return;
  child.ahead = ahead > 0 ? ahead * decayOf(stored.atMs, decay) : ahead;
  child.stored = stored.below?.[index] ?? null;
  child.known = true;
}

/** Gives the children of a share what was stored of them, and those that come anew the virtual time. */
export function rememberChildren(share: Share, rules: ShareRules): void {
  const children = share.children ?? new Map<string, Share>();
  share.stored?.names.forEach((name, index) => {
    const child = children.get(name);
    if (child !== undefined) remember(share, index, child, rules);
  });
  // with credit they would start ahead of what waits for ever
  const corrected = rules.charged === 'ended' && rules.idleCredit === 0;
  for (const child of children.values()) {
    if (!child.waiting) continue;
    share.weights += Math.max(1, Math.round(child.weight * weightUnits));
    // runtimes turned out shorter than expected: what waits has used less than was believed, and so has the virtual time
    if (child.known && corrected) share.fromTag = Math.min(share.fromTag, tagOf(child));
  }
  for (const child of children.values()) {
    if (!child.known) child.ahead = share.fromTag - rules.idleCredit / child.weight;
  }
}

/** A job of this share of the last level goes. Returns the shares that it was charged to, the first level's first. */
export function spend(
  share: Share,
  { charged }: ShareRules,
  { cost, member }: { readonly cost: number; readonly member: boolean },
): readonly Share[] {
  const path: Share[] = [];
  for (let at = share; at.parent !== null; at = at.parent) {
    const { parent } = at;
    // out of its turn, by a guarantee or with its bundle, it says nothing about the virtual time
    if (!member && at.standing?.needy !== true) parent.servedTag = Math.max(parent.servedTag, tagOf(at));
    if (!at.known) parent.news = grown(parent.news, at);
    at.known = true;
    if (charged === 'dispatched') at.ahead += cost / at.weight;
    else at.booked += cost;
    if (!member) at.slots += 1;
    parent.spent += cost;
    path.unshift(at);
  }
  return path;
}
