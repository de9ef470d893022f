/** A job from when it could be seen to its end; times in milliseconds. Its group is what limits it. */
export interface Lived {
  readonly group: string;
  /** When it could be dispatched first, as far as it alone is concerned. */
  readonly waitingMs: number;
  readonly dispatchedMs: number;
  readonly endedMs: number | null;
}

/** The longest stretch in which something could go and did not. */
export interface Idle {
  readonly ms: number;
  readonly fromMs: number;
  /** A group that had a job waiting and was below its limit. */
  readonly group: string;
}

/**
 * Sweeps over every moment, and measures for how long without a break there was a free slot while a group below its limit had a job
 * waiting. Pauses (nobody leads, a node is just lost) are given, and count for nothing.
 */
export function longestIdle(
  jobs: readonly Lived[],
  {
    slots,
    limit,
    pauses = [],
  }: {
    readonly slots: number;
    readonly limit: number;
    readonly pauses?: readonly { readonly fromMs: number; readonly toMs: number }[];
  },
): Idle {
  const waiting = new Map<string, number>();
  const running = new Map<string, number>();
  let total = 0;
  let paused = 0;
  const add = (counts: Map<string, number>, group: string, change: number): void =>
    void counts.set(group, (counts.get(group) ?? 0) + change);
  const steps = [
    ...jobs.flatMap(({ group, waitingMs, dispatchedMs, endedMs }) => [
      { atMs: Math.min(waitingMs, dispatchedMs), act: (): void => add(waiting, group, 1) },
      {
        atMs: dispatchedMs,
        act: (): void => {
          add(waiting, group, -1);
          add(running, group, 1);
          total += 1;
        },
      },
      {
        atMs: endedMs ?? Infinity,
        act: (): void => {
          add(running, group, -1);
          total -= 1;
        },
      },
    ]),
    ...pauses.flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, act: (): void => void (paused += 1) },
      { atMs: toMs, act: (): void => void (paused -= 1) },
    ]),
  ].toSorted((a, b) => a.atMs - b.atMs);
  const could = (): string | undefined => {
    if (paused > 0 || total >= slots) return undefined;
    return [...waiting].find(([group, count]) => count > 0 && (running.get(group) ?? 0) < limit)?.[0];
  };
  let longest: Idle = { ms: 0, fromMs: 0, group: '' };
  let since: { readonly atMs: number; readonly group: string } | undefined;
  for (const { atMs, act } of steps) {
    if (since !== undefined && atMs - since.atMs > longest.ms && atMs < Infinity) {
      longest = { ms: atMs - since.atMs, fromMs: since.atMs, group: since.group };
    }
    act();
    const group = could();
    since = group === undefined ? undefined : (since ?? { atMs, group });
  }
  return longest;
}
