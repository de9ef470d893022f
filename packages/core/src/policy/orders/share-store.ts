import type { Inner, Share, ShareRules } from './share.ts';
import { storedBelow, tagOf, weightUnits } from './share.ts';
import type { Shares } from './shares.ts';
import { columnsOf, decayOf } from './shares.ts';

/** To so much of a unit of cost by weight, `ahead` is stored: its text is much shorter. */
const places = 1e6;

/** Shares that are idle and yet ahead, or have credit, are remembered, on one level of one share at most so many: those furthest ahead. */
const idleMax = 20_000;

/** All of it that waits was passed over: it has to stand aside, which gives it no claim on those that go meanwhile. */
function isHeld({ waiting, passed, at }: Share): boolean {
  return waiting && passed && at < 0;
}

/**
 * The virtual time at the end of a plan: the largest start tag that was served (SFQ), and at least what an ideal server would have
 * come to, which serves all at once by their weights (GPS). Else a stream of ever new shares, all of which start at the virtual
 * time, would hold it where it is, and whoever is ahead of it would wait for ever.
 */
function endTag({ fromTag, servedTag, spent, weights }: Inner): number {
  const ideal = weights === 0 ? fromTag : fromTag + (spent / weights) * weightUnits;
  return Math.max(servedTag, ideal);
}

/** What is to be stored of the level below a share. The same object where nothing of it went. */
export function storeChildren(share: Share, rules: ShareRules): Shares | null {
  const { inner } = share;
  if (inner === null || inner.children === null || inner.spent === 0) return storedBelow(share);
  const { stored, children } = inner;
  const { levels, idleCredit, decay } = rules;
  const level = levels[inner.depth];
  const end = endTag(inner);
  const columns = createColumns(stored, inner.depth + 1 < levels.length);
  const rate = stored === null ? 1 : decayOf(stored.atMs, decay);
  stored?.ahead.forEach((was, column) => {
    const child = children.remembered[column];
    if (child !== undefined) return storeChild(columns, child, { end, rules });
    const ahead = (was > 0 ? was * rate : was) - end;
    if (ahead <= 0 && idleCredit === 0) return drop(columns, column);
    const name = stored.names[column] ?? '';
    const floor = idleCredit === 0 ? 0 : -idleCredit / (level?.weight(name) ?? 1);
    columns.idle += 1;
    const below = stored.below?.[column] ?? null;
    return add(columns, { name, column, ahead: Math.max(ahead, floor), below });
  });
  for (const child of inner.news) storeChild(columns, child, { end, rules });
  const { names, ahead, below } = columns.idle > idleMax ? leastIdle(columns, inner) : columns;
  const atMs = decay.halfLifeMs === null ? null : decay.nowMs;
  return { names: names ?? stored?.names ?? [], ahead, below, atMs, arrival: inner.servedArrival };
}

interface Columns {
  readonly before: readonly string[];
  /** Null as long as they are those from before: then these stay, as they are. */
  names: string[] | null;
  readonly ahead: number[];
  readonly below: (Shares | null)[] | null;
  idle: number;
}

function createColumns(stored: Shares | null, deeper: boolean): Columns {
  return { before: stored?.names ?? [], names: null, ahead: [], below: deeper ? [] : null, idle: 0 };
}

interface Stored {
  readonly name: string;
  readonly column: number;
  readonly ahead: number;
  readonly below: Shares | null;
}

function add(columns: Columns, share: Stored): void {
  const { ahead, below, before } = columns;
  if (columns.names !== null) columns.names.push(share.name);
  else if (share.column !== ahead.length) columns.names = [...before.slice(0, ahead.length), share.name];
  ahead.push(Math.round(share.ahead * places) / places);
  below?.push(share.below);
}

function drop(columns: Columns, column: number): void {
  columns.names ??= columns.before.slice(0, column);
}

function storeChild(
  columns: Columns,
  child: Share,
  { end, rules }: { readonly end: number; readonly rules: ShareRules },
): void {
  const { name, column, booked, weight } = child;
  const below = storeChildren(child, rules);
  const floor = rules.idleCredit === 0 ? 0 : -rules.idleCredit / weight;
  const tag = tagOf(child) - end;
  if (child.waiting && !isHeld(child)) return add(columns, { name, column, ahead: child.ahead - end, below });
  if (booked === 0 && tag <= 0 && floor === 0) return column < 0 ? undefined : drop(columns, column);
  if (!child.waiting && booked === 0) columns.idle += 1;
  return add(columns, { name, column, ahead: Math.max(tag, floor) - booked / weight, below });
}

/** Without those idle shares that are the least ahead. */
function leastIdle(
  { names, before, ahead, below }: Columns,
  { stored, children }: Inner,
): Pick<Columns, 'names' | 'ahead' | 'below'> {
  const all = names ?? before;
  const remembered = columnsOf(stored?.names ?? []);
  const busy = (name: string): boolean => {
    const child = children?.remembered[remembered.get(name) ?? -1] ?? children?.others.get(name);
    return child !== undefined && (child.waiting || child.booked > 0);
  };
  const idle = all.flatMap((name, index) => (busy(name) ? [] : [index]));
  const gone = new Set(
    idle.toSorted((a, b) => (ahead[b] ?? 0) - (ahead[a] ?? 0) || a - b).slice(idleMax - (idleMax >> 2)),
  );
  const kept = <Value>(column: readonly Value[]): Value[] => column.filter((_, index) => !gone.has(index));
  return { names: kept(all), ahead: kept(ahead), below: below === null ? null : kept(below) };
}
