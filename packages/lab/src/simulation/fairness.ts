/**
 * Who got what while there was not enough for all. A lane competes in the plans that left jobs of it waiting which no gate held, and in the one
 * behind those. What such a plan gave to competing lanes, in the slot time that it takes, is what there was to share: each was
 * entitled to its part by weight, between queues first, then between the keys of each. A plan in which fewer than two compete counts for nobody.
 */
export interface Fairness {
  sinceMs: number;
  /** Competing lanes, and the weights of their queues. */
  lanes: number;
  weights: number;
  /** The time so far in which two or more competed. */
  contendedMs: number;
  /** The slot time so far that one unit of weight was entitled to: the virtual time of generalised processor sharing (Parekh and Gallager, 1993). */
  virtualMs: number;
}

/** A queue's part in it, to be shared out between its keys. */
export interface QueuePart {
  readonly weight: number;
  lanes: number;
  weights: number;
  /** Fairness.virtualMs up to which its own is counted. */
  seenMs: number;
  virtualMs: number;
}

/** A lane's part. */
export interface Part {
  readonly queue: QueuePart;
  readonly weight: number;
  competes: boolean;
  /** How often it began to. */
  periods: number;
  virtualMs: number;
  /** Slot time that it was given, and entitled to, while it competed. */
  servedMs: number;
  entitledMs: number;
}

export function createFairness(nowMs: number): Fairness {
  return { sinceMs: nowMs, lanes: 0, weights: 0, contendedMs: 0, virtualMs: 0 };
}

export function createQueuePart(weight: number): QueuePart {
  return { weight, lanes: 0, weights: 0, seenMs: 0, virtualMs: 0 };
}

export function createPart(queue: QueuePart, weight: number): Part {
  return { queue, weight, competes: false, periods: 0, virtualMs: 0, servedMs: 0, entitledMs: 0 };
}

/** Says whether a lane competes from now on. */
export function compete(fairness: Fairness, part: Part, competes: boolean, nowMs: number): void {
  if (competes === part.competes) return;
  const ms = nowMs - fairness.sinceMs;
  fairness.sinceMs = nowMs;
  if (fairness.lanes >= 2) fairness.contendedMs += ms;
  settle(fairness, part);
  part.competes = competes;
  if (competes) part.periods += 1;
  const by = competes ? 1 : -1;
  const { queue, weight } = part;
  fairness.lanes += by;
  queue.lanes += by;
  queue.weights += by * weight;
  if (queue.lanes === (competes ? 1 : 0)) fairness.weights += by * queue.weight;
  // sums of fractions drift: with nobody there they are 0
  if (queue.lanes === 0) queue.weights = 0;
  if (fairness.lanes === 0) fairness.weights = 0;
}

/** What a plan gave, once it is known who competes in it. */
export function shareOut(
  fairness: Fairness,
  given: readonly { readonly part: Part; readonly workMs: number }[],
): void {
  if (fairness.lanes < 2) return;
  let sum = 0;
  for (const { part, workMs } of given) {
    if (!part.competes) continue;
    part.servedMs += workMs;
    sum += workMs;
  }
  fairness.virtualMs += sum / fairness.weights;
}

/** Counts what the lane was entitled to so far. */
export function settle(fairness: Fairness, part: Part): void {
  const { queue } = part;
  if (queue.lanes > 0)
    queue.virtualMs += (queue.weight * (fairness.virtualMs - queue.seenMs)) / queue.weights;
  queue.seenMs = fairness.virtualMs;
  if (part.competes) part.entitledMs += part.weight * (queue.virtualMs - part.virtualMs);
  part.virtualMs = queue.virtualMs;
}

/** 1: all the same; 1/n: one has all (Jain, Chiu and Hawe, 1984). Null for none. */
export function jain(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  let [sum, squares] = [0, 0];
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares);
}
