import type { Label, Labels } from './instruments.ts';

/** Label value that stands for all values beyond the limit of a label. */
export const other = 'other';

/** So many values of a label are told apart, by what a user may make up any number of. */
const valuesMax: Readonly<Partial<Record<Label, number>>> = { queue: 100, task: 200, flow: 100, part: 100 };
/** So many combinations of queue and task. */
const pairsMax = 500;

/** Keeps what is counted by name to so many names: those that come later are counted together. */
export interface Bounded {
  readonly labels: (labels: Labels) => Labels;
}

/** For one process; names that were seen keep their place for as long as it lives, so that a counter never shrinks. */
export function createBounded(): Bounded {
  const seen = new Map<string, Set<string>>();
  const pairs = new Map<string, Map<string, Labels>>();
  let pairCount = 0;

  const bound = (label: Label, value: string): string => {
    const most = valuesMax[label];
    if (most === undefined) return value;
    let values = seen.get(label);
    if (values === undefined) seen.set(label, (values = new Set<string>()));
    if (values.has(value)) return value;
    if (values.size >= most) return other;
    values.add(value);
    return value;
  };

  /** The same object each time: what is counted by it is found without being put together anew. */
  const pair = (queue: string, task: string): Labels => {
    const known = pairs.get(queue)?.get(task);
    if (known !== undefined) return known;
    if (pairCount >= pairsMax) return others;
    const labels = { queue: bound('queue', queue), task: bound('task', task) };
    if (labels.queue === other || labels.task === other) return labels;
    pairCount += 1;
    let tasks = pairs.get(queue);
    if (tasks === undefined) pairs.set(queue, (tasks = new Map<string, Labels>()));
    tasks.set(task, labels);
    return labels;
  };

  return {
    labels: (labels) => {
      const { queue, task } = labels;
      if (queue !== undefined && task !== undefined) return pair(queue, task);
      const entries = Object.entries(labels) as [Label, string][];
      if (entries.length === 0) return labels;
      return Object.fromEntries(entries.map(([label, value]) => [label, bound(label, value)]));
    },
  };
}

const others: Labels = { queue: other, task: other };
