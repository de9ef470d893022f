import type { Lane } from '../../snapshot.ts';
import type { Children, Inner, OpenLevel, Share, ShareRules, SharePlaces } from './share.ts';
import { createShare, innerOf } from './share.ts';
import type { Shares } from './saved.ts';
import { columnsOf } from '../ranking/columns.ts';
import { addStanding, createStandings, noSeq } from './standings.ts';

/** Shared empty list of stored names. */
const none: readonly never[] = [];

export function childrenOf(inner: Inner): Children {
  return (inner.children ??= createChildren(inner.stored?.names ?? none));
}

function createChildren(stored: readonly string[]): Children {
  return {
    columns: columnsOf(stored),
    stored,
    others: new Map(),
    names: [],
    shares: stored.map(() => undefined),
    lanes: stored.map(() => undefined),
    ahead: null,
    standings: createStandings(stored),
  };
}

export function nameOf({ stored, names }: Children, id: number): string {
  return stored[id] ?? names[id - stored.length] ?? '';
}

/** Returns the number of the child with a name. A new child gets the next number. */
function numberOf(children: Children, name: string): number {
  const known = children.columns.get(name) ?? children.others.get(name);
  if (known !== undefined) return known;
  const id = children.shares.push(undefined) - 1;
  children.names.push(name);
  children.lanes.push(undefined);
  addStanding(children.standings);
  children.others.set(name, id);
  return id;
}

/** Returns the child with a name, and creates it if it does not exist. */
export function childOf(share: Share, level: OpenLevel, name: string): Share {
  const children = childrenOf(innerOf(share));
  return childAt(share, level, numberOf(children, name));
}

/** Returns the child with a number, and creates it if it does not exist. */
export function childAt(share: Share, level: OpenLevel, id: number): Share {
  const inner = innerOf(share);
  const children = childrenOf(inner);
  const { shares, lanes, ahead, standings } = children;
  const there = shares[id];
  if (there !== undefined) return there;
  const name = nameOf(children, id);
  const min = level.min === undefined ? 0 : level.min(name);
  const child = createShare(share, { name, id, weight: level.weight(name), min });
  shares[id] = child;
  const lane = lanes[id];
  if (lane !== undefined) {
    [child.lanes, child.firstSeq, child.waiting] = [[lane], standings.seqs[id] ?? noSeq, true];
    lanes[id] = undefined;
  }
  const remembered = ahead?.[id];
  child.known = remembered !== undefined;
  child.ahead = remembered ?? inner.fromTag;
  return child;
}

/**
 * Adds the lanes of a share to its children. For a lane that is the same object as in the last plan, the
 * child and the first job are taken from there, and for one that has changed since, the child.
 */
export function addLanes(share: Share, level: OpenLevel, rules: ShareRules): void {
  const inner = innerOf(share);
  const { lanes } = share;
  const before = (inner.stored === null ? undefined : rules.slots?.get(inner.stored)) ?? noSlots;
  const children = childrenOf(inner);
  const ids = lanes.map(() => -1);
  const seqs = lanes.map(() => noSeq);
  let at = 0;
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const lane = lanes[slot];
    if (lane === undefined) continue;
    // a lane of the last plan is gone: skip it (a lane that was inserted leaves `at` as it is, below)
    if (before.lanes[at] !== lane && before.lanes[at + 1] === lane) at += 1;
    const last = before.lanes[at];
    const same = last === lane;
    let id =
      same || (last?.key === lane.key && last.queue === lane.queue) ? (before.ids[at] ?? unknown) : unknown;
    let seq = same ? (before.seqs[at] ?? noSeq) : noSeq;
    if (same || last !== lanes[slot + 1]) at += 1;
    if (!same || id === unknown) {
      const head = rules.headOf(lane);
      if (head === undefined) id = -1;
      else if (id < 0) id = numberOf(children, level.of(head));
      seq = head?.seq ?? noSeq;
    }
    ids[slot] = id;
    seqs[slot] = seq;
    if (id < 0) continue;
    // the only lane of a remembered share: no Share is created until it comes up
    if (
      id < children.stored.length &&
      children.shares[id] === undefined &&
      children.lanes[id] === undefined
    ) {
      children.lanes[id] = lane;
      children.standings.seqs[id] = seq;
    } else addLane(share, level, { lane, id, seq });
  }
  if (rules.slots !== null) inner.slots = { lanes, ids, seqs };
}

const unknown = -2;
const noSlots: SharePlaces = { lanes: [], ids: [], seqs: [] };

/**
 * Keeps the results for each lane for the next plan, by the columns that are stored now. `moved`: the new
 * column of each child. Null: no child moved.
 */
export function keepSlots(
  { slots, children }: Inner,
  rules: ShareRules,
  { stored, moved }: { readonly stored: Shares; readonly moved: readonly (number | undefined)[] | null },
): void {
  if (slots === null || rules.slots === null || children === null) return;
  const known = children.stored.length;
  const columnOf = (id: number): number | undefined =>
    moved === null ? (id < known ? id : undefined) : moved[id];
  const same = moved === null && children.names.length === 0;
  const ids = same ? slots.ids : slots.ids.map((id) => (id < 0 ? id : (columnOf(id) ?? unknown)));
  rules.slots.set(stored, { ...slots, ids });
}

interface LaneAt {
  readonly lane: Lane;
  readonly id: number;
  readonly seq: number;
}

function addLane(share: Share, level: OpenLevel, { lane, id, seq }: LaneAt): void {
  const child = childAt(share, level, id);
  if (child.lanes.length === 0) child.lanes = [lane];
  else (child.lanes as Lane[]).push(lane);
  if (seq < child.firstSeq) child.firstSeq = seq;
  child.waiting = true;
}
