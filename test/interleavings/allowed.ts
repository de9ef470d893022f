import type { Effect, JobState, NodeState, Operation, World } from './model.ts';
import { apply, passesOver, toldOver } from './model.ts';
import type { Schedule, Side } from './schedules.ts';
import { overlaps } from './schedules.ts';

/** What may come of a job, and what each side may be told of it. */
export interface Possible {
  readonly world: World;
  readonly told: Readonly<Record<Side, string | undefined>>;
}

export interface Pair {
  readonly a: Operation;
  readonly b: Operation;
  readonly schedule: Schedule;
}

/**
 * Everything that one transaction after the other could have made of a job, in either order; what was rolled back has no effect; and
 * where the two overlap, or a third held a lock, an operation that skips locked rows may have passed the job over.
 */
export function allowed({ a, b, schedule }: Pair, job: JobState, which: 0 | 1): readonly Possible[] {
  const together = overlaps(schedule);
  const orders: readonly (readonly [Side, Side])[] = together
    ? [
        ['a', 'b'],
        ['b', 'a'],
      ]
    : [schedule.order[0] === 'a' ? ['a', 'b'] : ['b', 'a']];
  const operationOf = { a, b };
  const start: World = { job, n1: nodeAtStart(a, b) };
  return orders.flatMap(([first, second]) => {
    const one = outcomes(operationOf[first], start, { which, side: first, mayPass: together });
    return one.flatMap((effect) => {
      const after = schedule.ends[first] === 'commit' ? effect.world : start;
      const two = outcomes(operationOf[second], after, { which, side: second, mayPass: together });
      return two.map((last): Possible => {
        const world = schedule.ends[second] === 'commit' ? last.world : after;
        const told = { [first]: effect.told, [second]: last.told } as Possible['told'];
        return { world, told };
      });
    });
  });
}

function outcomes(
  operation: Operation,
  world: World,
  { which, side, mayPass }: { readonly which: 0 | 1; readonly side: Side; readonly mayPass: boolean },
): readonly Effect[] {
  const done = apply(operation, world, which, tokenOf(side));
  if (!mayPass || !passesOver(operation) || done.told === 'PQ001') return [done];
  const over: Effect = { world, told: toldOver(operation, world) };
  // a node that keeps the lease of one job, which is locked, is not ended; the other job is taken back
  if (operation.kind === 'lose' || operation.kind === 'miss')
    return [done, over, { ...done, world: { ...done.world, n1: world.n1 } }];
  return [done, over];
}

/** Gone or silent where an operation wants that, and alive. */
export function nodeAtStart(...operations: readonly Operation[]): NodeState {
  if (operations.some(({ kind }) => kind === 'miss')) return 'gone';
  return operations.some(({ kind }) => kind === 'lose' || kind === 'register') ? 'silent' : 'beats';
}

/** What a claim draws. */
export function tokenOf(side: Side): string {
  return side === 'a' ? 'ta' : 'tb';
}
