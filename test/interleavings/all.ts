import type { Case, Ran } from './run.ts';
import { openStage, titleOf } from './run.ts';
import { mirrored, schedules } from './schedules.ts';
import { batchOperations, batchStarts } from './batch-worlds.ts';
import type { Operation } from './model.ts';
import type { Start } from './worlds.ts';
import { operations, starts } from './worlds.ts';

export interface InterleavingsReport {
  readonly pairs: number;
  readonly cases: number;
  /** Number of cases in which one side had to wait for a lock. */
  readonly waited: number;
  readonly violations: readonly string[];
}

/** Selects cases. */
export type Choice = (one: Case) => boolean;

/** Two jobs in rows of their own, or three jobs of a batch. */
const worlds = {
  jobs: { operations, starts },
  batches: { operations: batchOperations, starts: batchStarts },
} as const satisfies Readonly<Record<string, { operations: readonly Operation[]; starts: readonly Start[] }>>;

export type WorldName = keyof typeof worlds;

/**
 * Returns every pair of operations, from every start, in every order. If both operations are the same, an
 * order and its mirror image are one case with the sides' names exchanged, because both sessions and the
 * tokens that they draw are alike: only one of the two is taken.
 */
export function allCases(world: WorldName): readonly Case[] {
  const { operations: all, starts: from } = worlds[world];
  return all.flatMap((a, index) =>
    all.slice(index).flatMap((b) => {
      const own = schedules.filter((schedule) => a !== b || !mirrored(schedule));
      return from.flatMap((start) => own.map((schedule): Case => ({ a, b, start, schedule })));
    }),
  );
}

/**
 * Runs every `every`-th case, beginning at `from`. If `every` has no divisor in common with the counts, all
 * pairs and all orders are among them.
 */
export async function interleave(
  url: string,
  options: {
    readonly world: WorldName;
    readonly every: number;
    readonly from: number;
    readonly choose?: Choice;
    readonly observe?: (ran: Ran) => void;
  },
): Promise<InterleavingsReport> {
  const { world, every, from, choose = () => true, observe } = options;
  const stage = await openStage(url);
  const chosen = allCases(world)
    .filter(choose)
    .filter((_case, index) => index % every === from % every);
  const violations: string[] = [];
  const pairs = new Set<string>();
  let waited = 0;
  try {
    for (const one of chosen) {
      const ran = await stage.run(one);
      observe?.(ran);
      pairs.add(titleOf(one).split(' from ')[0] ?? '');
      if (ran.waited) waited += 1;
      violations.push(...ran.violations);
    }
  } finally {
    await stage.close();
  }
  return { pairs: pairs.size, cases: chosen.length, waited, violations };
}
