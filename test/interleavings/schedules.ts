/** One of the two transactions: its one statement, then its end. */
export type Side = 'a' | 'b';

/** In which order two transactions do what they do. */
export interface Schedule {
  /** Each side twice: first its statement, then its end. What waits for the other is ended behind it. */
  readonly order: readonly Side[];
  readonly ends: Readonly<Record<Side, 'commit' | 'rollback'>>;
  /**
   * A row that a third transaction has locked while both statements begin: whoever needs it stops in the middle of its function. It
   * is let go once both have answered, or wait.
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

/** All orders of two statements and two ends, with either end; and those in which both begin behind a lock of a third. */
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

/** Whether the two were ever open at the same time. */
export function overlaps({ order }: Schedule): boolean {
  return order[0] !== order[1];
}

/** Whether it is the mirror image of another one, in which the first step is a's. */
export function mirrored({ order }: Schedule): boolean {
  return order[0] === 'b';
}
