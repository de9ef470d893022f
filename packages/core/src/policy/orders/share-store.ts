import type { Share, ShareRules } from './share.ts';
import { storedAhead, tagOf, weightUnits } from './share.ts';
import type { Shares } from './shares.ts';

/** To so much of a unit of cost by weight, `ahead` is stored: its text is much shorter. */
const places = 1e6;

/** Shares that are idle and yet ahead, or have credit, are remembered, on one level of one share at most so many: those furthest ahead. */
const idleMax = 20_000;

/** All of it that waits was passed over: it has to stand aside, which gives it no claim on those that go meanwhile. */
function isHeld({ waiting, passed, standing }: Share): boolean {
  return waiting && passed && standing === null;
}

/**
 * The virtual time at the end of a plan: the largest start tag that was served (SFQ), and at least what an ideal server would have
 * come to, which serves all at once by their weights (GPS). Else a stream of ever new shares, all of which start at the virtual
 * time, would hold it where it is, and whoever is ahead of it would wait for ever.
 */
function endTag({ fromTag, servedTag, spent, weights }: Share): number {
  const ideal = weights === 0 ? fromTag : fromTag + (spent / weights) * weightUnits;
  return Math.max(servedTag, ideal);
}

/** What is to be stored of the level below a share. The same object where nothing of it went. */
export function storeChildren(share: Share, rules: ShareRules): Shares | null {
  const { children, stored, spent } = share;
  if (children === null || spent === 0) return stored;
  const { levels, idleCredit, decay } = rules;
  const level = levels[share.depth];
  const end = endTag(share);
  const columns: Columns = {
    names: [],
    ahead: [],
    below: share.depth + 1 < levels.length ? [] : null,
    idle: 0,
  };
  stored?.names.forEach((name, index) => {
    const child = children.get(name);
    if (child !== undefined) return storeChild(columns, child, { end, rules });
    const ahead = storedAhead(stored, index, decay) - end;
    if (ahead <= 0 && idleCredit === 0) return undefined;
    const floor = idleCredit === 0 ? 0 : -idleCredit / (level?.weight(name) ?? 1);
    columns.idle += 1;
    return add(columns, { name, ahead: Math.max(ahead, floor), below: stored.below?.[index] ?? null });
  });
  for (const child of share.news) storeChild(columns, child, { end, rules });
  const { names, ahead, below } = columns.idle > idleMax ? leastIdle(columns, children) : columns;
  const atMs = decay.halfLifeMs === null ? null : decay.nowMs;
  return { names, ahead, below, atMs, arrival: share.servedArrival };
}

interface Columns {
  readonly names: string[];
  readonly ahead: number[];
  readonly below: (Shares | null)[] | null;
  idle: number;
}

function add(
  { names, ahead, below }: Columns,
  share: { readonly name: string; readonly ahead: number; readonly below: Shares | null },
): void {
  names.push(share.name);
  ahead.push(Math.round(share.ahead * places) / places);
  below?.push(share.below);
}

function storeChild(
  columns: Columns,
  child: Share,
  { end, rules }: { readonly end: number; readonly rules: ShareRules },
): void {
  const { name, booked, weight } = child;
  const below = storeChildren(child, rules);
  const floor = rules.idleCredit === 0 ? 0 : -rules.idleCredit / weight;
  const tag = tagOf(child) - end;
  if (child.waiting && !isHeld(child)) return add(columns, { name, ahead: child.ahead - end, below });
  if (booked === 0 && tag <= 0 && floor === 0) return undefined;
  if (!child.waiting && booked === 0) columns.idle += 1;
  return add(columns, { name, ahead: Math.max(tag, floor) - booked / weight, below });
}

/** Without those idle shares that are the least ahead. */
function leastIdle(columns: Columns, children: ReadonlyMap<string, Share>): Columns {
  const { names, ahead, below } = columns;
  const busy = (name: string): boolean => {
    const child = children.get(name);
    return child !== undefined && (child.waiting || child.booked > 0);
  };
  const idle = names.flatMap((name, index) => (busy(name) ? [] : [index]));
  const gone = new Set(
    idle.toSorted((a, b) => (ahead[b] ?? 0) - (ahead[a] ?? 0) || a - b).slice(idleMax - (idleMax >> 2)),
  );
  const kept = <Value>(column: Value[]): Value[] => column.filter((_, index) => !gone.has(index));
  return {
    names: kept(names),
    ahead: kept(ahead),
    below: below === null ? null : kept(below),
    idle: idleMax,
  };
}
