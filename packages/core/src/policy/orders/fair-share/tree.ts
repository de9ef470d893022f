import { compareText } from '../../snapshot.ts';
import type { Candidate, JobFacts, Lane } from '../../snapshot.ts';
import type { Heap } from '../ranking/heap.ts';
import { createHeap } from '../ranking/heap.ts';
import type { Inner, OpenLevel, Place, Share, ShareRules } from './share.ts';
import { book, createRoot, innerOf, spend, tagOf } from './share.ts';
import { addLanes, childAt, childOf, childrenOf, nameOf } from './children.ts';
import { rememberChildren } from './past.ts';
import { storeChildren } from './store.ts';
import type { Shares } from './saved.ts';
import type { Standings } from './standings.ts';
import { createLine, noSeq } from './standings.ts';

/** All shares of one pool during one plan: a tree of heaps. Parts of the tree are built when they come up. */
export interface ShareTree {
  readonly next: () => Lane | undefined;
  /** Charges the job, and returns the share of the last level that it was charged to. */
  readonly taken: (
    lane: Lane,
    job: Candidate,
    use: { readonly cost: number; readonly member: boolean },
  ) => Share;
  readonly passed: (lane: Lane) => void;
  readonly stored: () => Shares | null;
}

interface Tree {
  readonly rules: ShareRules;
  readonly root: Share;
  /** Current place of each lane. A heap entry that is not in here is outdated. */
  readonly places: Map<Lane, Place>;
  /**
   * By depth: this level or one below it has guarantees. Such a part must be built completely to say which
   * share goes first.
   */
  readonly guarantees: readonly boolean[];
}

export function openTree(rules: ShareRules, seen: Parameters<typeof createRoot>[0]): ShareTree {
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
        const inner = build(tree, share);
        if (inner.places !== null) return inner.places.peek()?.lane;
        const id = firstOf(inner);
        const level = levels[inner.depth];
        if (id === undefined || level === undefined) return undefined;
        share = childAt(share, level, id);
      }
    },
    taken: (lane, job, use) => {
      const share = shareIn(tree, lane, job);
      spend(share, rules, use);
      const from = move(tree, lane);
      stand(share);
      if (from !== undefined && from !== share) stand(from);
      return share;
    },
    passed: (lane) => {
      const from = move(tree, lane);
      for (let up = from ?? null; up !== null; up = up.parent) up.passed = true;
      if (from !== undefined) stand(from);
    },
    stored: () => storeChildren(tree.root, rules),
  };
}

/** Builds the level below a share. */
function build(tree: Tree, share: Share): Inner {
  const inner = innerOf(share);
  const level = tree.rules.levels[inner.depth];
  if (level !== undefined) {
    if (inner.order === null) buildChildren(tree, share, level);
  } else if (inner.places === null) {
    const own: Place[] = [];
    for (const lane of share.lanes) {
      const head = tree.rules.headOf(lane);
      if (head !== undefined) own.push({ lane, head, share });
    }
    for (const place of own) tree.places.set(place.lane, place);
    inner.places = createHeap(own, firstPlace);
  }
  return inner;
}

function buildChildren(tree: Tree, share: Share, level: OpenLevel): void {
  const { rules, guarantees } = tree;
  const inner = innerOf(share);
  addLanes(share, level, rules);
  for (const item of inner.items) book(childOf(share, level, level.of(item.item)), item);
  rememberChildren(share, level, rules);
  const children = childrenOf(inner);
  const { standings, lanes, shares, ahead } = children;
  const guaranteed = level.min !== undefined || guarantees[inner.depth + 1] === true;
  const order: number[] = [];
  const arrivals: number[] = [];
  for (let id = 0; id < shares.length; id += 1) {
    const child =
      shares[id] ?? (guaranteed && lanes[id] !== undefined ? childAt(share, level, id) : undefined);
    if (child !== undefined) {
      if (!child.waiting) continue;
      if (guarantees[inner.depth + 1] === true) build(tree, child);
      if (ranks(child, standings)) (child.arrived ? arrivals : order).push(id);
    } else if (lanes[id] !== undefined) {
      standings.tags[id] = ahead?.[id] ?? 0;
      order.push(id);
    }
  }
  const byName = (a: number, b: number): boolean => compareText(nameOf(children, a), nameOf(children, b)) < 0;
  inner.order = createLine(order, standings, byName);
  inner.arrivals = createLine(arrivals, standings, byName);
}

/**
 * Returns the child that goes first, the one with the smallest start tag. Every other time a child that has
 * just arrived goes instead, for its first job: it would be the last of a round among thousands that wait.
 * That job is ahead of its turn by one. The share does not count as new again while it is remembered, which
 * is until the others had their turn.
 */
function firstOf({ order, arrivals, servedArrival, children }: Inner): number | undefined {
  const first = order?.first();
  const arrival = arrivals?.first();
  if (arrival === undefined || first === undefined) return first ?? arrival;
  const needy = children?.standings.needy;
  return servedArrival || (needy?.[first] === true && needy[arrival] !== true) ? first : arrival;
}

/**
 * Updates the columns that a share is ranked by: its unmet guarantee, its start tag, and the job that would
 * go. Returns false if the share has no such job.
 */
function ranks(share: Share, standings: Standings): boolean {
  const { inner, slots, min, firstSeq, id } = share;
  let needy = slots < min;
  let seq = firstSeq;
  if (inner !== null && inner.places !== null) seq = inner.places.peek()?.head.seq ?? noSeq;
  else if (inner !== null && inner.order !== null) {
    const below = firstOf(inner) ?? -1;
    seq = inner.children?.standings.seqs[below] ?? noSeq;
    needy ||= inner.children?.standings.needy[below] === true;
  }
  standings.needy[id] = needy;
  standings.tags[id] = tagOf(share);
  standings.seqs[id] = seq;
  return seq !== noSeq;
}

function firstPlace(a: Place, b: Place): boolean {
  return a.head.seq !== b.head.seq ? a.head.seq < b.head.seq : compareText(a.head.id, b.head.id) < 0;
}

/** Returns the share of the last level that a job belongs to, and builds the levels above and below it. */
function shareOf(tree: Tree, job: JobFacts): Share {
  let share = tree.root;
  for (const level of tree.rules.levels) {
    build(tree, share);
    share = childOf(share, level, level.of(job));
  }
  build(tree, share);
  return share;
}

/**
 * Returns the share of a job whose lane is known. All jobs of a lane belong to one share, unless a level is
 * grouped by a user's function.
 */
function shareIn(tree: Tree, lane: Lane, job: JobFacts): Share {
  const known = tree.rules.slots === null ? undefined : tree.places.get(lane);
  return known?.share ?? shareOf(tree, job);
}

/** Moves a lane after its head changed, possibly to another share. Returns the share that it stood in. */
function move(tree: Tree, lane: Lane): Share | undefined {
  const { places, rules } = tree;
  const old = places.get(lane);
  const head = rules.headOf(lane);
  const place = head === undefined ? undefined : { lane, head, share: shareIn(tree, lane, head) };
  if (place === undefined) places.delete(lane);
  else places.set(lane, place);
  const from = old?.share.inner?.places ?? null;
  const to = place?.share.inner?.places ?? null;
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

/** Updates the place of a changed share among its siblings, and those of all shares above it. */
function stand(share: Share): void {
  for (let at = share; at.parent !== null; at = at.parent) {
    const inner = innerOf(at.parent);
    const line = at.arrived ? inner.arrivals : inner.order;
    if (ranks(at, childrenOf(inner).standings)) line?.put(at.id);
    else line?.remove(at.id);
  }
}
