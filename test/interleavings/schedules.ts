/** One of the two transactions: one statement, then its end. */
export type Side = 'a' | 'b';

/** The order of the steps of two transactions. */
export interface Schedule {
  /**
   * Each side appears twice: first its statement, then its end. A side that waits for the other ends after
   * it.
   */
  readonly order: readonly Side[];
  readonly ends: Readonly<Record<Side, 'commit' | 'rollback'>>;
  /**
   * A row that a third transaction has locked while both statements begin: a statement that needs it stops in
   * the middle of its function. The lock is released once both have answered or wait.
   */
  readonly blocker: Blocker | null;
}

export type Blocker = 'item 0' | 'item 1' | 'job 0' | 'job 1' | 'node';

const orders: readonly (readonly Side[])[] = [
  ['a', 'a', 'b', 'b'],
  ['a', 'b', 'a', 'b'],
  ['a', 'b', 'b', 'a'],
  ['b', 'a', 'a', 'b'],
  ['b', 'a', 'b', 'a'],
  ['b', 'b', 'a', 'a'],
];
const ends = ['commit', 'rollback'] as const;
const blockers: readonly Blocker[] = ['item 0', 'item 1', 'job 0', 'job 1', 'node'];

/**
 * All orders of two statements and two ends, with either end; also those in which both begin behind a lock of
 * a third transaction.
 */
export const schedules: readonly Schedule[] = [
  ...orders.flatMap((order) =>
    ends.flatMap((a) => ends.map((b): Schedule => ({ order, ends: { a, b }, blocker: null }))),
  ),
  ...orders
    .filter(([first, second]) => first !== second)
    .flatMap((order) =>
      blockers.map((blocker): Schedule => ({ order, ends: { a: 'commit', b: 'commit' }, blocker })),
    ),
];

/** True if the two transactions were open at the same time. */
export function overlaps({ order }: Schedule): boolean {
  return order[0] !== order[1];
}

/** True if the schedule is the mirror image of another one, which begins with side a. */
export function mirrored({ order }: Schedule): boolean {
  return order[0] === 'b';
}
