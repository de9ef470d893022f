import { compareText } from '../snapshot.ts';
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
  /** What a job costs by and large. */
  readonly quantum: number;
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
  /** Nothing is remembered of it, while others wait that are, and it has not been served yet. */
  arrived: boolean;
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
  /** Of those children that have just arrived. */
  arrivals: Heap<Standing> | null;
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
  news: readonly Share[];
}

/** On one level of one share, so many shares are known by what they had; of the others, who waits longest becomes known first. */
const knownMax = 20_000;

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
    arrived: false,
    waiting: false,
    passed: false,
    standing: null,
    lanes: none,
    firstSeq: Infinity,
    items: none,
    children: null,
    order: null,
    arrivals: null,
    servedArrival: false,
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
  child.ahead = share.fromTag;
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
  if (stored === null || index < 0) return;
  child.ahead = storedAhead(stored, index, decay);
  child.stored = stored.below?.[index] ?? null;
  child.known = true;
}

/** How far ahead a share is by now. */
export function storedAhead({ ahead, atMs }: Shares, index: number, decay: Decay): number {
  const was = ahead[index] ?? 0;
  return was > 0 ? was * decayOf(atMs, decay) : was;
}

/** What shares that compete have used: those that wait, and those that do not but are ahead, since they had it while the others waited. */
interface Competing {
  weight: number;
  /** How far they are ahead, together. */
  cost: number;
  waiting: number;
  least: number;
}

/** Gives the children of a share what was stored of them, and the virtual time to those that come anew. */
export function rememberChildren(share: Share, level: OpenLevel, rules: ShareRules): void {
  const { stored } = share;
  const children = share.children ?? new Map<string, Share>();
  share.servedArrival = stored?.arrival === true;
  const competing: Competing = { weight: 0, cost: 0, waiting: 0, least: Infinity };
  stored?.names.forEach((name, index) => {
    const child = children.get(name);
    if (child !== undefined) remember(share, index, child, rules);
    const tag = child === undefined ? storedAhead(stored, index, rules.decay) : tagOf(child);
    if (child?.waiting !== true && tag <= 0) return;
    const weight = child?.weight ?? level.weight(name);
    competing.weight += weight;
    competing.cost += weight * tag;
    if (child?.waiting === true) {
      competing.waiting += 1;
      competing.least = Math.min(competing.least, tag);
    } else share.weights += inUnits(weight);
  });
  share.fromTag = startTag(competing, rules);
  const news: Share[] = [];
  for (const child of children.values()) {
    if (child.waiting) share.weights += inUnits(child.weight);
    if (child.known) continue;
    child.ahead = share.fromTag;
    child.arrived = competing.waiting > 0;
    if (child.waiting) news.push(child);
  }
  news.sort((a, b) => a.firstSeq - b.firstSeq || compareText(a.name, b.name));
  share.news = news.slice(0, Math.max(0, knownMax - (stored?.names.length ?? 0)));
  for (const child of share.news) child.known = true;
}

function inUnits(weight: number): number {
  return Math.max(1, Math.round(weight * weightUnits));
}

/**
 * The virtual time at the beginning of a plan. Where jobs are charged when they are dispatched, it is where the last plan left it, 0.
 * Else attempts turned out longer or shorter than was expected, or credit was given, and it is the mean of what those
 * that compete have had; but hardly beyond the share that has had least, so that who comes anew does not wait for others' misfortune.
 */
function startTag(
  { weight, cost, waiting, least }: Competing,
  { charged, idleCredit, quantum }: ShareRules,
): number {
  if (weight === 0 || (charged === 'dispatched' && idleCredit === 0)) return 0;
  const mean = cost / weight;
  return idleCredit > 0 ? mean : Math.min(mean, least + (quantum * waiting) / weight);
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
    parent.servedArrival = at.arrived;
    at.arrived = false;
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
