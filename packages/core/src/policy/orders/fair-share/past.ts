import { compareText } from '../../snapshot.ts';
import type { Inner, OpenLevel, Share, ShareRules } from './share.ts';
import { innerOf, tagOf, weightUnits } from './share.ts';
import { childrenOf } from './children.ts';
import type { Shares } from './saved.ts';
import { aheadNow } from './saved.ts';

/**
 * Most shares of one level of one share that have a start tag of their own. The longest waiting of the others
 * get one first.
 */
const knownMax = 40_000;

/**
 * Totals of the shares that compete: those that wait, and those that do not wait but are ahead, because they
 * got service while the others waited.
 */
interface Competing {
  weight: number;
  /** Sum of their leads, times their weights. */
  cost: number;
  waiting: number;
  least: number;
}

/** Gives the children of a share their stored leads. New children start at the virtual time. */
export function rememberChildren(share: Share, level: OpenLevel, rules: ShareRules): void {
  const inner = innerOf(share);
  const { stored } = inner;
  inner.servedArrival = stored?.arrival === true;
  const competing: Competing = { weight: 0, cost: 0, waiting: 0, least: Infinity };
  if (stored === null) childrenOf(inner).ahead = [];
  else recall(inner, { stored, level, rules, competing });
  inner.fromTag = startTag(competing, rules);
  const news: Share[] = [];
  for (const child of childrenOf(inner).shares) {
    if (child === undefined) continue;
    if (child.waiting) inner.weights += inUnits(child.weight);
    if (child.known) continue;
    child.ahead = inner.fromTag;
    child.arrived = competing.waiting > 0 && !child.lanes.every(({ found }) => found === true);
    if (child.waiting) news.push(child);
  }
  news.sort((a, b) => a.firstSeq - b.firstSeq || compareText(a.name, b.name));
  inner.news = news.slice(0, Math.max(0, knownMax - competing.waiting));
  for (const child of inner.news) child.known = true;
}

/** Reads the stored shares and adds up those that compete. */
function recall(
  inner: Inner,
  {
    stored,
    level,
    rules,
    competing,
  }: {
    readonly stored: Shares;
    readonly level: OpenLevel;
    readonly rules: ShareRules;
    readonly competing: Competing;
  },
): void {
  const children = childrenOf(inner);
  const ahead = aheadNow(stored, rules.decay);
  children.ahead = ahead;
  for (let id = 0; id < ahead.length; id += 1) {
    const child = children.shares[id];
    let tag = ahead[id] ?? 0;
    if (child !== undefined) {
      [child.ahead, child.known] = [tag, true];
      tag = tagOf(child);
    }
    const waiting = child === undefined ? children.lanes[id] !== undefined : child.waiting;
    if (!waiting && tag <= 0) continue;
    const weight = child?.weight ?? level.weight(stored.names[id] ?? '');
    competing.weight += weight;
    competing.cost += weight * tag;
    if (waiting) {
      competing.waiting += 1;
      if (tag < competing.least) competing.least = tag;
    }
    // children that wait and have a Share are counted by the caller, together with the new ones
    if (child === undefined || !waiting) inner.weights += inUnits(weight);
  }
}

function inUnits(weight: number): number {
  return Math.max(1, Math.round(weight * weightUnits));
}

/**
 * Returns the virtual time at the beginning of a plan.
 *
 * If jobs are charged when they are dispatched, the virtual time is where the last plan left it: 0. Otherwise
 * attempts took longer or shorter than expected, or idle credit was given, and the virtual time is the mean
 * lead of the competing shares. Without idle credit it is limited to little more than the smallest lead of a
 * waiting share, so that a new share does not wait for the others' misjudged runtimes.
 */
function startTag(
  { weight, cost, waiting, least }: Competing,
  { charged, idleCredit, quantum }: ShareRules,
): number {
  if (weight === 0 || (charged === 'dispatched' && idleCredit === 0)) return 0;
  const mean = cost / weight;
  return idleCredit > 0 ? mean : Math.min(mean, least + (quantum * waiting) / weight);
}
