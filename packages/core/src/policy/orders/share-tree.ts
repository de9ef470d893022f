import { compareText } from '../snapshot.ts';
import type { Candidate, JobFacts, Lane } from '../snapshot.ts';
import type { Heap } from './heap.ts';
import { createHeap } from './heap.ts';
import type { OpenLevel, Place, Share, ShareRules, Standing } from './share.ts';
import { addLane, book, childOf, createRoot, rememberChildren, spend, tagOf } from './share.ts';
import { storeChildren } from './share-store.ts';
import type { Shares } from './shares.ts';

/** All shares of one pool during one plan: a tree of heaps, of which only what comes up is built. */
export interface ShareTree {
  readonly next: () => Lane | undefined;
  /** The shares that it was charged to, the first level's first. */
  readonly taken: (
    lane: Lane,
    job: Candidate,
    use: { readonly cost: number; readonly member: boolean },
  ) => readonly Share[];
  readonly passed: (lane: Lane) => void;
  readonly stored: () => Shares | null;
}

interface Tree {
  readonly rules: ShareRules;
  readonly root: Share;
  /** Where each lane stands; a heap's entry that is not here is old. */
  readonly places: Map<Lane, Place>;
  /** Whether a level, or one below it, guarantees anything: then all of it must be built to say who goes first. */
  readonly guarantees: readonly boolean[];
}

export function openTree(rules: ShareRules, seen: Pick<Share, 'lanes' | 'items' | 'stored'>): ShareTree {
  const { levels } = rules;
  const tree: Tree = {
    rules,
    root: createRoot(seen),
    places: new Map(),
    guarantees: levels.map((_, depth) => levels.slice(depth).some(({ min }) => min !== undefined)),
  };
  return {
    next: () => {
      for (let share = tree.root; ;) {
        build(tree, share);
        if (share.places !== null) return share.places.peek()?.lane;
        const top = firstOf(share);
        if (top === undefined) return undefined;
        share = top.share;
      }
    },
    taken: (lane, job, use) => {
      const share = shareOf(tree, job);
      const path = spend(share, rules, use);
      const from = move(tree, lane);
      stand(share);
      if (from !== undefined && from !== share) stand(from);
      return path;
    },
    passed: (lane) => {
      const from = move(tree, lane);
      for (let up = from ?? null; up !== null; up = up.parent) up.passed = true;
      if (from !== undefined) stand(from);
    },
    stored: () => storeChildren(tree.root, rules),
  };
}

/** Makes what is below a share. */
function build(tree: Tree, share: Share): void {
  const level = tree.rules.levels[share.depth];
  if (level !== undefined) {
    if (share.order === null) buildChildren(tree, share, level);
  } else if (share.places === null) {
    const own = share.lanes.flatMap((lane) => placeOf(tree, lane, share) ?? []);
    for (const place of own) tree.places.set(place.lane, place);
    share.places = createHeap(own, firstPlace);
  }
}

function placeOf({ rules }: Tree, lane: Lane, share: Share): Place | undefined {
  const head = rules.headOf(lane);
  return head === undefined ? undefined : { lane, head, share };
}

function buildChildren(tree: Tree, share: Share, level: OpenLevel): void {
  const { rules, guarantees } = tree;
  for (const lane of share.lanes) {
    const head = rules.headOf(lane);
    if (head === undefined) continue;
    addLane(childOf(share, level, level.of(head), rules), lane, head);
  }
  for (const item of share.items) book(childOf(share, level, level.of(item.item), rules), item);
  rememberChildren(share, level, rules);
  const standings: Standing[] = [];
  const arrivals: Standing[] = [];
  for (const child of share.children?.values() ?? []) {
    if (!child.waiting) continue;
    if (guarantees[child.depth] === true) build(tree, child);
    child.standing = standingOf(child);
    if (child.standing !== null) (child.arrived ? arrivals : standings).push(child.standing);
  }
  share.order = createHeap(standings, firstStanding);
  share.arrivals = createHeap(arrivals, firstStanding);
}

/**
 * The child that goes first: the one with the smallest tag. But every other one is one that has just arrived, for its first job: among
 * thousands that wait it would go as the last of their round. That is ahead of its turn by one job, and it is not anew as long as
 * it is remembered, that is before the others had theirs.
 */
function firstOf({ order, arrivals, servedArrival }: Share): Standing | undefined {
  const first = order?.peek();
  const arrival = arrivals?.peek();
  if (arrival === undefined || first === undefined) return first ?? arrival;
  return servedArrival || (first.needy && !arrival.needy) ? first : arrival;
}

function standingOf(share: Share): Standing | null {
  const { slots, min, places, order, firstSeq } = share;
  const below = firstOf(share);
  const seq = places !== null ? places.peek()?.head.seq : order !== null ? below?.seq : firstSeq;
  if (seq === undefined || seq === Infinity) return null;
  return { share, needy: slots < min || below?.needy === true, tag: tagOf(share), seq };
}

function firstStanding(a: Standing, b: Standing): boolean {
  if (a.needy !== b.needy) return a.needy;
  if (a.tag !== b.tag) return a.tag < b.tag;
  return a.seq !== b.seq ? a.seq < b.seq : compareText(a.share.name, b.share.name) < 0;
}

function firstPlace(a: Place, b: Place): boolean {
  return a.head.seq !== b.head.seq ? a.head.seq < b.head.seq : compareText(a.head.id, b.head.id) < 0;
}

/** The share of the last level that a job belongs to, with what is above and below it made. */
function shareOf(tree: Tree, job: JobFacts): Share {
  let share = tree.root;
  for (const level of tree.rules.levels) {
    build(tree, share);
    share = childOf(share, level, level.of(job), tree.rules);
  }
  build(tree, share);
  return share;
}

/** The lane's head moved on, maybe to another share. Returns the share where it was. */
function move(tree: Tree, lane: Lane): Share | undefined {
  const { places, rules } = tree;
  const old = places.get(lane);
  const head = rules.headOf(lane);
  const place = head === undefined ? undefined : { lane, head, share: shareOf(tree, head) };
  if (place === undefined) places.delete(lane);
  else places.set(lane, place);
  const from = old?.share.places ?? null;
  const to = place?.share.places ?? null;
  const wasTop = old !== undefined && from?.peek() === old;
  if (place !== undefined && wasTop && from === to) from?.replace(place);
  else {
    if (wasTop) from?.pop();
    if (place !== undefined) to?.push(place);
  }
  const isOld = (entry: Place): boolean => places.get(entry.lane) !== entry;
  dropOld(from, isOld);
  if (place !== undefined && place.share !== old?.share) {
    dropOld(to, isOld);
    for (let up: Share | null = place.share; up !== null; up = up.parent) up.waiting = true;
    stand(place.share);
  }
  return old?.share;
}

function dropOld<Entry>(heap: Heap<Entry> | null, isOld: (entry: Entry) => boolean): void {
  for (let top = heap?.peek(); top !== undefined && isOld(top); top = heap?.peek()) heap?.pop();
}

/** A share changed: so may its place among its siblings, and that of all above it. */
function stand(share: Share): void {
  for (let at = share; at.parent !== null; at = at.parent) {
    const { order, arrivals } = at.parent;
    const heap = at.arrived ? arrivals : order;
    const old = at.standing;
    const standing = standingOf(at);
    at.standing = standing;
    if (old !== null && heap?.peek() === old) {
      if (standing === null) heap.pop();
      else heap.replace(standing);
    } else if (standing !== null) heap?.push(standing);
    for (const line of [order, arrivals]) dropOld(line, (entry) => entry.share.standing !== entry);
  }
}
