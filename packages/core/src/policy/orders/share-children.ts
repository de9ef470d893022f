import type { Lane } from '../snapshot.ts';
import type { Children, Inner, OpenLevel, Share, ShareRules, Slots } from './share.ts';
import { createShare, innerOf } from './share.ts';
import type { Shares } from './shares.ts';
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

/** The number of the child of that name. */
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

/** The child of that name, made if need be. */
export function childOf(share: Share, level: OpenLevel, name: string): Share {
  const children = childrenOf(innerOf(share));
  return childAt(share, level, numberOf(children, name));
}

/** The child of that number, made if need be. */
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
    [child.lanes, child.firstSeq, child.waiting] = [[lane], standings.seqs[id] ?? -1, true];
    lanes[id] = undefined;
  }
  const remembered = ahead?.[id];
  child.known = remembered !== undefined;
  child.ahead = remembered ?? inner.fromTag;
  return child;
}

/** Adds the lanes of a share to its children. What the last plan found out of a lane that is still the same is taken from there. */
export function addLanes(share: Share, level: OpenLevel, rules: ShareRules): void {
  const inner = innerOf(share);
  const { lanes } = share;
  const before = (inner.stored === null ? undefined : rules.slots?.get(inner.stored)) ?? noSlots;
  const children = childrenOf(inner);
  const ids = lanes.map(() => -1);
  const seqs = lanes.map(() => -1);
  let at = 0;
  for (let slot = 0; slot < lanes.length; slot += 1) {
    const lane = lanes[slot];
    if (lane === undefined) continue;
    // one that was there is gone, or one came between
    if (before.lanes[at] !== lane && before.lanes[at + 1] === lane) at += 1;
    const same = before.lanes[at] === lane;
    let id = same ? (before.ids[at] ?? unknown) : unknown;
    let seq = same ? (before.seqs[at] ?? -1) : -1;
    if (same || before.lanes[at] !== lanes[slot + 1]) at += 1;
    if (id === unknown) {
      const head = rules.headOf(lane);
      id = head === undefined ? -1 : numberOf(children, level.of(head));
      seq = head?.seq ?? -1;
    }
    ids[slot] = id;
    seqs[slot] = seq;
    if (id < 0) continue;
    // the only one of a share that was remembered: as long as it does not come up, no share is made for it
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
const noSlots: Slots = { lanes: [], ids: [], seqs: [] };

/** What was found out of the lanes, for the next plan: by the columns that are stored now. `moved`: where each child went; null: none did. */
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
  if (child.firstSeq < 0 || seq < child.firstSeq) child.firstSeq = seq;
  child.waiting = true;
}
