import type { Effect, JobState, NodeState, World } from './job.ts';
import type { Operation } from './model.ts';
import { apply, passesOver, toldOver } from './model.ts';
import type { Schedule, Side } from './schedules.ts';
import { overlaps } from './schedules.ts';

/** A possible result for a job, and the answer of each side about it. */
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
 * Returns all possible results of the two transactions run one after the other, in either order. A
 * transaction that is rolled back has no effect. If the two overlap, or a third one held a lock, an operation
 * that skips locked rows may have passed the job over.
 */
export function allowed({ a, b, schedule }: Pair, job: JobState, which: number): readonly Possible[] {
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
  { which, side, mayPass }: { readonly which: number; readonly side: Side; readonly mayPass: boolean },
): readonly Effect[] {
  const done = apply(operation, world, which, tokenOf(side));
  const may = [done, ...alone(operation, done)];
  if (!mayPass || !passesOver(operation, world) || done.told === 'PQ001') return may;
  const over: Effect = { world, told: toldOver(operation, world, which) };
  return [...may, over, ...halfway(operation, world, done)];
}

/**
 * Returns the result for the last job left of a new batch, when the others are elsewhere: it gets a row of
 * its own.
 */
function alone(operation: Operation, { world, told }: Effect): readonly Effect[] {
  if (operation.kind !== 'tickTogether' || told === undefined) return [];
  return [{ world: { ...world, job: { ...world.job, row: 'own' } }, told }];
}

/** Returns further results for a job if other jobs, or related rows, were locked. */
function halfway({ kind }: Operation, world: World, done: Effect): readonly Effect[] {
  if (kind !== 'lose' && kind !== 'miss' && kind !== 'steal') return [];
  const apart: Effect = { world: { ...world, job: { ...world.job, row: 'own' } }, told: undefined };
  // a node that keeps the lease of one job, which is locked, is not ended; the others are taken back
  return [{ ...done, world: { ...done.world, n1: world.n1 } }, apart];
}

/** Returns the state of n1 at the start: gone or silent if an operation needs that, otherwise alive. */
export function nodeAtStart(...operations: readonly Operation[]): NodeState {
  if (operations.some(({ kind }) => kind === 'miss')) return 'gone';
  return operations.some(({ kind }) => kind === 'lose' || kind === 'register') ? 'silent' : 'beats';
}

/** Returns the token that a claim of this side draws. */
export function tokenOf(side: Side): string {
  return side === 'a' ? 'ta' : 'tb';
}
