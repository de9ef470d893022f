import { compareText } from '../snapshot.ts';
import type { OpenLevel, Share, ShareRules } from './share.ts';
import { eachChild, innerOf, tagOf, weightUnits } from './share.ts';
import { decayOf } from './shares.ts';

/** On one level of one share, so many shares are known by what they had; of the others, who waits longest becomes known first. */
const knownMax = 20_000;

/** What shares that compete have used: those that wait, and those that do not but are ahead, since they had it while the others waited. */
interface Competing {
  weight: number;
  /** How far they are ahead, together. */
  cost: number;
  waiting: number;
  least: number;
}

/** Gives the children of a share what was stored of them, and the virtual time to those that come anew. */
export function rememberChildren(share: Share, level: OpenLevel, rules: ShareRules): void {
  const inner = innerOf(share);
  const { stored, children } = inner;
  inner.servedArrival = stored?.arrival === true;
  const competing: Competing = { weight: 0, cost: 0, waiting: 0, least: Infinity };
  const rate = stored === null ? 1 : decayOf(stored.atMs, rules.decay);
  stored?.ahead.forEach((was, column) => {
    const child = children?.remembered[column];
    const ahead = was > 0 ? was * rate : was;
    if (child !== undefined) remember(child, ahead);
    const tag = child === undefined ? ahead : tagOf(child);
    if (child?.waiting !== true && tag <= 0) return;
    const weight = child?.weight ?? level.weight(stored.names[column] ?? '');
    competing.weight += weight;
    competing.cost += weight * tag;
    if (child?.waiting === true) {
      competing.waiting += 1;
      competing.least = Math.min(competing.least, tag);
    } else inner.weights += inUnits(weight);
  });
  inner.fromTag = startTag(competing, rules);
  const news: Share[] = [];
  eachChild(inner, (child) => {
    if (child.waiting) inner.weights += inUnits(child.weight);
    if (child.known) return;
    child.ahead = inner.fromTag;
    child.arrived = competing.waiting > 0;
    if (child.waiting) news.push(child);
  });
  news.sort((a, b) => a.firstSeq - b.firstSeq || compareText(a.name, b.name));
  inner.news = news.slice(0, Math.max(0, knownMax - (stored?.names.length ?? 0)));
  for (const child of inner.news) child.known = true;
}

/** One that comes up in the middle of a plan, by a job of another share's lane. */
export function rememberLate(child: Share, { decay }: ShareRules): void {
  const stored = child.parent?.inner?.stored;
  if (child.known || child.column < 0 || stored === undefined || stored === null) return;
  const was = stored.ahead[child.column] ?? 0;
  remember(child, was > 0 ? was * decayOf(stored.atMs, decay) : was);
}

function remember(child: Share, ahead: number): void {
  child.ahead = ahead;
  child.known = true;
}

function inUnits(weight: number): number {
  return Math.max(1, Math.round(weight * weightUnits));
}

/**
 * The virtual time at the beginning of a plan. Where jobs are charged when they are dispatched, it is where the last plan left it, 0.
 * Else attempts turned out longer or shorter than was expected, or credit was given, and it is the mean of what those
 * that compete have had; but hardly beyond the share that has had least, so that who comes anew does not wait for others' misfortune.
 */
function startTag(
  { weight, cost, waiting, least }: Competing,
  { charged, idleCredit, quantum }: ShareRules,
): number {
  if (weight === 0 || (charged === 'dispatched' && idleCredit === 0)) return 0;
  const mean = cost / weight;
  return idleCredit > 0 ? mean : Math.min(mean, least + (quantum * waiting) / weight);
}
