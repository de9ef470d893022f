import type { BenchOptions } from '../options.ts';

/** Works of one size, for whom, and how often: what is not said is what the command line says, and never more than that. */
export interface Part extends Partial<Pick<BenchOptions, 'seconds' | 'repeat'>> {
  readonly works: readonly string[];
  readonly peers: readonly string[];
  /** The beginnings of the names of the cases that count; default: all. */
  readonly cases?: readonly string[];
}

const own = ['pgqueue:default'];
const rival = 'graphile-worker:best';
const others = ['pg-boss:best', 'bullmq:best'];
const main = [...own, rival, ...others];

/**
 * What is said of a system before all else. On two cores that do nothing else, everything once takes a quarter of an hour, and each further
 * repetition five minutes: what takes a minute or more is done once, and so is what peers do as ever where only pgqueue is judged.
 */
const short: readonly Part[] = [
  { works: ['drain'], peers: [...main, 'pgqueue:no-history', 'table:hand-tuned'] },
  { works: ['latency'], peers: [...main, 'table:hand-tuned'], cases: ['woken'], seconds: 6 },
  { works: ['latency'], peers: own, cases: ['by polling'], seconds: 6 },
  { works: ['enqueue'], peers: [...main, 'table:raw'], seconds: 1 },
  { works: ['keys'], peers: own, cases: ['1 key', '10,000 keys'] },
  { works: ['backlog'], peers: own, cases: ['10,000'], seconds: 30 },
  { works: ['fair'], peers: own },
  { works: ['fair'], peers: [rival, ...others], repeat: 1 },
  { works: ['idle'], peers: [...own, rival], seconds: 20, repeat: 1 },
  { works: ['backlog'], peers: own, cases: ['5,000,000'], seconds: 30, repeat: 1 },
  { works: ['sustain', 'pinned'], peers: [...own, rival], seconds: 60, repeat: 1 },
];

export const plans: Readonly<Record<string, readonly Part[]>> = { short };

/** What is to run: a plan's parts, or the works of the command line as one. */
export function partsOf({ plan, works, peers }: BenchOptions): readonly Part[] {
  return (plan === undefined ? undefined : plans[plan]) ?? [{ works, peers }];
}
