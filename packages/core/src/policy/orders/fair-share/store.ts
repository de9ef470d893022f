import type { Children, Inner, Share, ShareRules } from './share.ts';
import { keepSlots } from './children.ts';
import { storedBelow, tagOf, weightUnits } from './share.ts';
import type { Shares } from './saved.ts';

/**
 * Resolution at which `ahead` is stored: `places` per unit of cost by weight, or `digits` of the largest of its level,
 * whichever is finer. Rounding makes the stored text much shorter.
 */
const places = 1e6;
const digits = 9;

/**
 * Most idle shares that are stored on one level of one share, because they are ahead or have credit. Beyond
 * that, those furthest ahead are kept.
 */
const idleMax = 20_000;

/**
 * Reports whether everything of the share that waits was passed over. A held share has no claim on the
 * service that others get meanwhile.
 */
function isHeld({ waiting, passed, parent, id }: Share): boolean {
  const standings = parent?.inner?.children?.standings;
  return waiting && passed && (standings?.at[id] ?? -1) < 0;
}

/**
 * Returns the virtual time at the end of a plan: the largest start tag that was served (SFQ), and at least
 * the time that an ideal server would have reached, which serves all shares at once by their weights (GPS).
 * Without that minimum a stream of ever new shares, which all start at the virtual time, would stop it, and
 * every share that is ahead would wait for ever.
 */
function endTag({ fromTag, servedTag, spent, weights }: Inner): number {
  const ideal = weights === 0 ? fromTag : fromTag + (spent / weights) * weightUnits;
  return Math.max(servedTag, ideal);
}

/**
 * Returns the columns to store for the level below a share. The same object is returned if no job of it went.
 */
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
  round(columns.ahead, end);
  const { names, ahead, below } = columns.idle > idleMax ? leastIdle(columns, children) : columns;
  const atMs = rules.decay.halfLifeMs === null ? null : rules.decay.nowMs;
  const shares = { names: names ?? children.stored, ahead, below, atMs, arrival: inner.servedArrival };
  if (names === columns.names) keepSlots(inner, rules, { stored: shares, moved: columns.moved });
  return shares;
}

/** Rounds the leads over a virtual time. Differences of a part in 10^16 of these are noise. */
function round(ahead: number[], end: number): void {
  let largest = Math.abs(end);
  for (const value of ahead) if (Math.abs(value) > largest) largest = Math.abs(value);
  const finer = largest === 0 ? 0 : digits - Math.ceil(Math.log10(largest));
  const unit = Math.max(places, 10 ** finer);
  for (let at = 0; at < ahead.length; at += 1) ahead[at] = Math.round((ahead[at] ?? 0) * unit) / unit;
}

interface Columns {
  readonly before: readonly string[];
  /** Null while the names equal those stored before. */
  names: string[] | null;
  /** New column of each child. Null while every child keeps its column. */
  moved: (number | undefined)[] | null;
  readonly ahead: number[];
  readonly below: (Shares | null)[] | null;
  idle: number;
}

function createColumns({ stored }: Children, deeper: boolean): Columns {
  return { before: stored, names: null, moved: null, ahead: [], below: deeper ? [] : null, idle: 0 };
}

/**
 * Starts columns of its own, at the first child that differs from the stored ones. Later calls do nothing.
 */
function part(columns: Columns, id: number): void {
  if (columns.names !== null) return;
  columns.names = columns.before.slice(0, columns.ahead.length);
  columns.moved = Array.from({ length: id }, (_, at) => (at < columns.ahead.length ? at : undefined));
}

interface Stored {
  readonly ahead: number;
  readonly below: Shares | null;
}

/** Appends one child. `name`: given for a child that was not stored before. */
function add(columns: Columns, id: number, { ahead: value, below: own }: Stored, name?: string): void {
  const { ahead, below, before } = columns;
  if (name !== undefined) part(columns, id);
  if (columns.names !== null && columns.moved !== null) {
    columns.moved[id] = ahead.length;
    columns.names.push(name ?? before[id] ?? '');
  }
  ahead.push(value);
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

/** Returns the columns without the idle shares that are the least ahead. */
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
