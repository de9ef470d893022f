/**
 * Who got what while there was not enough for all. At each moment the slots in use by backlogged lanes (those with waiting jobs) are
 * divided by weight: what each of them is entitled to. Only time in which two or more are backlogged counts.
 */
export interface Fairness {
  sinceMs: number;
  /** Backlogged lanes, their weights, and the slots that they use. */
  lanes: number;
  weights: number;
  slots: number;
  /** The time so far in which two or more were backlogged. */
  contendedMs: number;
  /** The slot time so far that one unit of weight was entitled to: the virtual time of fair queueing (Parekh and Gallager, 1993). */
  virtualMs: number;
}

/** A lane's part in it. */
export interface Part {
  readonly weight: number;
  backlogged: boolean;
  running: number;
  contendedMs: number;
  virtualMs: number;
  /** Slot time that it had, and was entitled to, while backlogged beside others. */
  servedMs: number;
  entitledMs: number;
}

export function createFairness(nowMs: number): Fairness {
  return { sinceMs: nowMs, lanes: 0, weights: 0, slots: 0, contendedMs: 0, virtualMs: 0 };
}

export function createPart(weight: number): Part {
  return { weight, backlogged: false, running: 0, contendedMs: 0, virtualMs: 0, servedMs: 0, entitledMs: 0 };
}

/** Counts up to now, then notes how a lane stands from here on. */
export function note(
  fairness: Fairness,
  part: Part,
  { nowMs, waiting, running }: { readonly nowMs: number; readonly waiting: number; readonly running: number },
): void {
  const ms = nowMs - fairness.sinceMs;
  if (ms > 0) {
    fairness.sinceMs = nowMs;
    if (fairness.lanes >= 2) {
      fairness.contendedMs += ms;
      fairness.virtualMs += (fairness.slots / fairness.weights) * ms;
    }
  }
  if (part.backlogged) {
    part.servedMs += part.running * (fairness.contendedMs - part.contendedMs);
    part.entitledMs += part.weight * (fairness.virtualMs - part.virtualMs);
    fairness.lanes -= 1;
    fairness.weights -= part.weight;
    fairness.slots -= part.running;
  }
  part.contendedMs = fairness.contendedMs;
  part.virtualMs = fairness.virtualMs;
  part.backlogged = waiting > 0;
  part.running = running;
  if (part.backlogged) {
    fairness.lanes += 1;
    fairness.weights += part.weight;
    fairness.slots += running;
  }
  // sums of fractions drift: with nobody there they are 0
  if (fairness.lanes === 0) [fairness.weights, fairness.slots] = [0, 0];
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
