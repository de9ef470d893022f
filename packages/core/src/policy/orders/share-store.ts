import type { Children, Inner, Share, ShareRules } from './share.ts';
import { keepSlots } from './share-children.ts';
import { storedBelow, tagOf, weightUnits } from './share.ts';
import type { Shares } from './shares.ts';

/** To so much of a unit of cost by weight, `ahead` is stored: its text is much shorter. */
const places = 1e6;

/** Shares that are idle and yet ahead, or have credit, are remembered, on one level of one share at most so many: those furthest ahead. */
const idleMax = 20_000;

/** All of it that waits was passed over: it has to stand aside, which gives it no claim on those that go meanwhile. */
function isHeld({ waiting, passed, parent, id }: Share): boolean {
  const standings = parent?.inner?.children?.standings;
  return waiting && passed && (standings?.at[id] ?? -1) < 0;
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
  const { levels, idleCredit } = rules;
  const level = levels[inner.depth];
  const end = endTag(inner);
  const columns = createColumns(children, inner.depth + 1 < levels.length);
  for (let id = 0; id < children.stored.length; id += 1) {
    const child = children.shares[id];
    if (child !== undefined) {
      storeChild(columns, child, { end, rules });
      continue;
    }
    const ahead = (children.ahead?.[id] ?? 0) - end;
    const below = stored?.below?.[id] ?? null;
    if (children.lanes[id] !== undefined) add(columns, id, { ahead, below });
    else if (ahead <= 0 && idleCredit === 0) part(columns, id);
    else {
      const floor = idleCredit === 0 ? 0 : -idleCredit / (level?.weight(children.stored[id] ?? '') ?? 1);
      columns.idle += 1;
      add(columns, id, { ahead: Math.max(ahead, floor), below });
    }
  }
  for (const child of inner.news) storeChild(columns, child, { end, rules });
  const { names, ahead, below } = columns.idle > idleMax ? leastIdle(columns, children) : columns;
  const atMs = rules.decay.halfLifeMs === null ? null : rules.decay.nowMs;
  const shares = { names: names ?? children.stored, ahead, below, atMs, arrival: inner.servedArrival };
  if (names === columns.names) keepSlots(inner, rules, { stored: shares, moved: columns.moved });
  return shares;
}

interface Columns {
  readonly before: readonly string[];
  /** Null as long as they are those from before: then these stay, as they are. */
  names: string[] | null;
  /** Where each child went; null as long as each is where it was. */
  moved: (number | undefined)[] | null;
  readonly ahead: number[];
  readonly below: (Shares | null)[] | null;
  idle: number;
}

function createColumns({ stored }: Children, deeper: boolean): Columns {
  return { before: stored, names: null, moved: null, ahead: [], below: deeper ? [] : null, idle: 0 };
}

/** From the child of this number on the columns differ from those before. */
function part(columns: Columns, id: number): void {
  if (columns.names !== null) return;
  columns.names = columns.before.slice(0, columns.ahead.length);
  columns.moved = Array.from({ length: id }, (_, at) => (at < columns.ahead.length ? at : undefined));
}

interface Stored {
  readonly ahead: number;
  readonly below: Shares | null;
}

/** One more; `name`: where it was not there before. */
function add(columns: Columns, id: number, { ahead: value, below: own }: Stored, name?: string): void {
  const { ahead, below, before } = columns;
  if (name !== undefined) part(columns, id);
  if (columns.names !== null && columns.moved !== null) {
    columns.moved[id] = ahead.length;
    columns.names.push(name ?? before[id] ?? '');
  }
  ahead.push(Math.round(value * places) / places);
  below?.push(own);
}

function storeChild(
  columns: Columns,
  child: Share,
  { end, rules }: { readonly end: number; readonly rules: ShareRules },
): void {
  const { id, booked, weight } = child;
  const name = id < columns.before.length ? undefined : child.name;
  const below = storeChildren(child, rules);
  const floor = rules.idleCredit === 0 ? 0 : -rules.idleCredit / weight;
  const tag = tagOf(child) - end;
  if (child.waiting && !isHeld(child)) return add(columns, id, { ahead: child.ahead - end, below }, name);
  if (booked === 0 && tag <= 0 && floor === 0) return name === undefined ? part(columns, id) : undefined;
  if (!child.waiting && booked === 0) columns.idle += 1;
  return add(columns, id, { ahead: Math.max(tag, floor) - booked / weight, below }, name);
}

/** Without those idle shares that are the least ahead. */
function leastIdle(
  { names, before, ahead, below }: Columns,
  children: Children,
): Pick<Columns, 'names' | 'ahead' | 'below'> {
  const all = names ?? before;
  const busy = (name: string): boolean => {
    const id = children.columns.get(name) ?? children.others.get(name) ?? -1;
    const child = children.shares[id];
    return child === undefined ? children.lanes[id] !== undefined : child.waiting || child.booked > 0;
  };
  const idle = all.flatMap((name, index) => (busy(name) ? [] : [index]));
  const gone = new Set(
    idle.toSorted((a, b) => (ahead[b] ?? 0) - (ahead[a] ?? 0) || a - b).slice(idleMax - (idleMax >> 2)),
  );
  const kept = <Value>(column: readonly Value[]): Value[] => column.filter((_, index) => !gone.has(index));
  return { names: kept(all), ahead: kept(ahead), below: below === null ? null : kept(below) };
}
