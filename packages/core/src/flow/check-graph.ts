import { nearest } from '../options/did-you-mean.ts';
import { say } from '../options/options.ts';
import type { FlatStep } from './flatten.ts';
import { labelOf } from './flatten.ts';
import { flowLimits } from './limits.ts';
import type { ProblemList } from './problems.ts';
import type { NeedCondition } from './step.ts';

const conditions: ReadonlySet<string> = new Set<NeedCondition>(['done', 'ended', 'failed']);

/**
 * Adds the problems of the steps among each other: names that repeat, needs that are no steps or steps of
 * another kind, too many needs, and a cycle. Returns the steps in an order in which each one comes after
 * those that it needs: the given order, as far as possible.
 */
export function checkGraph(steps: readonly FlatStep[], problems: ProblemList): readonly FlatStep[] {
  const indexes = new Map<string, number>();
  for (const [index, { name }] of steps.entries()) {
    if (indexes.has(name)) problems.add(`${labelOf(name)} is there twice`);
    else indexes.set(name, index);
  }
  let count = 0;
  for (const step of steps) {
    count += step.needs.size;
    for (const [needed, condition] of step.needs) {
      if (!indexes.has(needed)) problems.add(() => `${labelOf(step.name)}: ${noStep(needed, indexes)}`);
      if (!conditions.has(condition))
        problems.add(
          `${labelOf(step.name)}: needs done, ended or failed of ${JSON.stringify(needed)}, not ${say(condition)}`,
        );
    }
    for (const [needed, task] of step.reads) {
      const other = steps[indexes.get(needed) ?? -1];
      if (other !== undefined && !isOf(other, task))
        problems.add(
          `${labelOf(step.name)}: its task needs ${task === null ? 'a signal' : `jobs of task ${JSON.stringify(task)}`} in ${labelOf(needed)}`,
        );
    }
  }
  if (count > flowLimits.needsMax) problems.add(`it has ${count} needs, more than ${flowLimits.needsMax}`);
  const { order, cycle } = inOrder(steps, indexes);
  if (cycle !== undefined) problems.add(`its steps need each other in a cycle: ${toldCycle(cycle)}`);
  return order;
}

function isOf(step: FlatStep, task: string | null): boolean {
  if (task === null) return step.kind === 'signal';
  return step.kind === 'jobs' && [...step.tasks].every((other) => other === task);
}

function noStep(needed: string, indexes: ReadonlyMap<string, number>): string {
  const inside = [...indexes.keys()].find((name) => name.startsWith(`${needed}.`));
  if (inside !== undefined)
    return `${JSON.stringify(needed)} is a flow: name the steps of it that are needed, such as ${JSON.stringify(inside)}`;
  const near = nearest(needed, [...indexes.keys()]);
  return `needs ${JSON.stringify(needed)}, which is no step${near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`}`;
}

/** Longest cycle that is told in full, in steps. */
const toldMax = 10;

function toldCycle(names: readonly string[]): string {
  const [first = ''] = names;
  const told = names.slice(0, toldMax);
  const rest = names.length > toldMax ? [`${names.length - toldMax} more`] : [];
  return [...told, ...rest, first]
    .map((name, at) => (rest.length > 0 && at === toldMax ? name : JSON.stringify(name)))
    .join(' → ');
}

const noNeeds: FlatStep['needs'] = new Map();

/** A step on the way down from a step to those that it needs, and the needs that are still to be followed. */
interface Visit {
  readonly index: number;
  readonly needs: MapIterator<string>;
}

/**
 * Returns the steps in an order in which needs come first, or the names of a cycle, each of which needs the
 * next one. A search in depth, without recursion: a chain may have 10,000 steps.
 */
function inOrder(
  steps: readonly FlatStep[],
  indexes: ReadonlyMap<string, number>,
): { readonly order: readonly FlatStep[]; readonly cycle?: readonly string[] } {
  const order: FlatStep[] = [];
  const states: ('open' | 'closed' | undefined)[] = [];
  for (const start of steps.keys()) {
    const path: Visit[] = [];
    const enter = (index: number): void => {
      states[index] = 'open';
      path.push({ index, needs: (steps[index]?.needs ?? noNeeds).keys() });
    };
    if (states[start] === undefined) enter(start);
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const { value: needed, done } = visit.needs.next();
      const next = needed === undefined ? undefined : indexes.get(needed);
      if (done === true) {
        const step = steps[visit.index];
        if (step !== undefined) order.push(step);
        states[visit.index] = 'closed';
        path.pop();
      } else if (next !== undefined && states[next] === 'open') {
        const from = path.findIndex(({ index }) => index === next);
        return { order, cycle: path.slice(from).map(({ index }) => steps[index]?.name ?? '') };
      } else if (next !== undefined && states[next] === undefined) {
        enter(next);
      }
    }
  }
  return { order };
}
