/** A job from when it could be seen to its end; times in milliseconds. Each of its groups has a limit. */
export interface Lived {
  readonly groups: readonly string[];
  /** When it could be dispatched first, as far as it alone is concerned. */
  readonly waitingMs: number;
  readonly dispatchedMs: number;
  readonly endedMs: number | null;
}

/** The longest stretch in which something could go and did not. */
export interface Idle {
  readonly ms: number;
  readonly fromMs: number;
  /** The groups of a job that waited, each of them below its limit. */
  readonly groups: string;
}

/**
 * Sweeps over every moment, and measures for how long without a break there was a free slot while a job waited whose
 * groups were all below their limits. Pauses (nobody leads, a node is just lost) are given, and count for nothing.
 */
export function longestIdle(
  jobs: readonly Lived[],
  {
    slots,
    limitOf,
    pauses = [],
  }: {
    readonly slots: number;
    readonly limitOf: (group: string) => number;
    readonly pauses?: readonly { readonly fromMs: number; readonly toMs: number }[];
  },
): Idle {
  const waiting = new Map<string, number>();
  const running = new Map<string, number>();
  let total = 0;
  let paused = 0;
  const add = (counts: Map<string, number>, group: string, change: number): void =>
    void counts.set(group, (counts.get(group) ?? 0) + change);
  const name = (groups: readonly string[]): string => groups.join(' and ');
  const steps = [
    ...jobs.flatMap(({ groups, waitingMs, dispatchedMs, endedMs }) => [
      { atMs: Math.min(waitingMs, dispatchedMs), act: (): void => add(waiting, name(groups), 1) },
      {
        atMs: dispatchedMs,
        act: (): void => {
          add(waiting, name(groups), -1);
          for (const group of groups) add(running, group, 1);
          total += 1;
        },
      },
      {
        atMs: endedMs ?? Infinity,
        act: (): void => {
          for (const group of groups) add(running, group, -1);
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
    const free = (group: string): boolean => (running.get(group) ?? 0) < limitOf(group);
    return [...waiting].find(([names, count]) => count > 0 && names.split(' and ').every(free))?.[0];
  };
  let longest: Idle = { ms: 0, fromMs: 0, groups: '' };
  let since: { readonly atMs: number; readonly groups: string } | undefined;
  for (const { atMs, act } of steps) {
    if (since !== undefined && atMs - since.atMs > longest.ms && atMs < Infinity) {
      longest = { ms: atMs - since.atMs, fromMs: since.atMs, groups: since.groups };
    }
    act();
    const groups = could();
    since = groups === undefined ? undefined : (since ?? { atMs, groups });
  }
  return longest;
}
