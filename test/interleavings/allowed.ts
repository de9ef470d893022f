import type { Effect, JobState, NodeState, World } from './job.ts';
import type { Operation } from './model.ts';
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

/** Of a batch of which one job is left, the others being elsewhere, there is none. */
function alone(operation: Operation, { world, told }: Effect): readonly Effect[] {
  if (operation.kind !== 'tickTogether' || told === undefined) return [];
  return [{ world: { ...world, job: { ...world.job, row: 'own' } }, told }];
}

/** What else comes of a job where others, or a part of what concerns it, were locked. */
function halfway({ kind }: Operation, world: World, done: Effect): readonly Effect[] {
  if (kind !== 'lose' && kind !== 'miss' && kind !== 'steal') return [];
  const apart: Effect = { world: { ...world, job: { ...world.job, row: 'own' } }, told: undefined };
  // a node that keeps the lease of one job, which is locked, is not ended; the others are taken back
  return [{ ...done, world: { ...done.world, n1: world.n1 } }, apart];
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
