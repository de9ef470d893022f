import type { BenchOptions } from '../options.ts';

/**
 * Works to run by the given peers. `seconds` and `repeat` default to the command line's values and never
 * exceed them.
 */
export interface Part extends Partial<Pick<BenchOptions, 'seconds' | 'repeat'>> {
  readonly works: readonly string[];
  readonly peers: readonly string[];
  /** Prefixes of the names of the cases to run; default: all cases. */
  readonly cases?: readonly string[];
}

const own = ['pgqueue:default'];
const rival = 'graphile-worker:best';
const others = ['pg-boss:best', 'bullmq:best'];
const main = [...own, rival, ...others];

/**
 * The figures to know about a system first. On two otherwise idle cores one repetition of everything takes 15
 * minutes, and each further one 5 minutes. Cases that take a minute or more run once, and so do other peers
 * where only pgqueue is judged.
 */
const short: readonly Part[] = [
  { works: ['drain'], peers: [...main, 'pgqueue:no-history', 'table:hand-tuned'] },
  { works: ['latency'], peers: [...main, 'table:hand-tuned'], cases: ['woken'], seconds: 6 },
  { works: ['latency'], peers: [...own, rival], cases: ['1,000'], seconds: 6 },
  { works: ['latency'], peers: own, cases: ['by polling'], seconds: 6 },
  { works: ['enqueue'], peers: [...main, 'table:raw'], seconds: 4 },
  { works: ['handlers'], peers: [...own, rival] },
  { works: ['keys'], peers: own, cases: ['1 key', '10,000 keys'] },
  { works: ['backlog'], peers: own, cases: ['10,000'], seconds: 30 },
  { works: ['flows'], peers: own, seconds: 10 },
  { works: ['fair'], peers: own },
  { works: ['fair'], peers: [rival, ...others], repeat: 1 },
  { works: ['idle'], peers: [...own, rival], seconds: 20, repeat: 1 },
  { works: ['backlog'], peers: own, cases: ['5,000,000'], seconds: 30, repeat: 1 },
  { works: ['sustain', 'pinned'], peers: [...own, rival], seconds: 60, repeat: 1 },
];

export const plans: Readonly<Record<string, readonly Part[]>> = { short };

/** Parts to run: those of the plan, or the works of the command line as one part. */
export function partsOf({ plan, works, peers }: BenchOptions): readonly Part[] {
  return (plan === undefined ? undefined : plans[plan]) ?? [{ works, peers }];
}
