import type { Lane } from '../snapshot.ts';
import type { Children, Inner, OpenLevel, Place, Share } from './share.ts';
import { createShare, innerOf } from './share.ts';
import { columnsOf } from './shares.ts';
import { addStanding, createStandings } from './standings.ts';

/** Where there are none. */
const none: readonly never[] = [];

export function childrenOf(inner: Inner): Children {
  return (inner.children ??= createChildren(inner.stored?.names ?? none));
}

function createChildren(stored: readonly string[]): Children {
  return {
    columns: columnsOf(stored),
    stored,
    others: new Map(),
    shares: stored.map(() => undefined),
    lanes: stored.map(() => undefined),
    ahead: null,
    standings: createStandings(stored),
  };
}

/** The number of the child of that name. */
function numberOf(children: Children, name: string): number {
  const known = children.columns.get(name) ?? children.others.get(name);
  if (known !== undefined) return known;
  const id = children.shares.push(undefined) - 1;
  children.lanes.push(undefined);
  addStanding(children.standings);
  children.others.set(name, id);
  return id;
}

/** The child of that name, made if need be. */
export function childOf(share: Share, level: OpenLevel, name: string): Share {
  const children = childrenOf(innerOf(share));
  return childAt(share, level, { id: numberOf(children, name), name });
}

/** The child of that number. `name`: where it is known. */
export function childAt(
  share: Share,
  level: OpenLevel,
  { id, name: given }: { readonly id: number; readonly name?: string },
): Share {
  const inner = innerOf(share);
  const { shares, lanes, stored, ahead, standings } = childrenOf(inner);
  const there = shares[id];
  if (there !== undefined) return there;
  const name = given ?? stored[id] ?? '';
  const min = level.min === undefined ? 0 : level.min(name);
  const child = createShare(share, { name, id, weight: level.weight(name), min });
  shares[id] = child;
  const lane = lanes[id];
  if (lane !== undefined) {
    [child.lanes, child.firstSeq, child.waiting] = [[lane], standings.seqs[id] ?? -1, true];
    lanes[id] = undefined;
  }
  const remembered = ahead?.[id];
  child.known = remembered !== undefined;
  child.ahead = remembered ?? inner.fromTag;
  return child;
}

/** A lane that waits, by its first job. */
export function addLane(share: Share, level: OpenLevel, { lane, head }: Omit<Place, 'share'>): void {
  const name = level.of(head);
  const children = childrenOf(innerOf(share));
  const id = numberOf(children, name);
  const { lanes, shares, standings } = children;
  if (id < children.stored.length && shares[id] === undefined && lanes[id] === undefined) {
    lanes[id] = lane;
    standings.seqs[id] = head.seq;
    return;
  }
  const child = childAt(share, level, { id, name });
  if (child.lanes.length === 0) child.lanes = [lane];
  else (child.lanes as Lane[]).push(lane);
  if (child.firstSeq < 0 || head.seq < child.firstSeq) child.firstSeq = head.seq;
  child.waiting = true;
}
