import type { Candidate, Policy } from '@pgqueue/core';
import { compareInKey } from '@pgqueue/core';
import type { Line, SimJob } from '../line.ts';
import { createLine } from '../line.ts';

/** The waiting jobs of one lane, as policies are shown them. */
export interface KindLines {
  readonly size: () => number;
  /** Whether what was shown last, `shown` jobs, is not the same any more. */
  readonly add: (job: SimJob, shown: number) => boolean;
  readonly remove: (job: SimJob) => void;
  /** The first `depth`; where a policy tells kinds, so many together of the first of each kind, and at least `least` of each. */
  readonly show: (depth: number, least: number) => Shown;
}

/** Some of the jobs that wait in a lane, in their order. */
export interface Shown {
  readonly jobs: readonly Candidate[];
  /** As {@link Lane.unseen}; undefined: the policy tells no kinds. */
  readonly unseen: Readonly<Record<string, number>> | undefined;
}

/**
 * Where gates hold many jobs of a lane, all of a kind are held together: to show the first few of each kind is as good as to show
 * all of them, and costs the less, the more there are.
 */
export function createKindLines(kindOf: Policy['kindOf']): KindLines {
  return kindOf === undefined ? oneKind() : manyKinds(kindOf);
}

function oneKind(): KindLines {
  const line = createLine();
  return {
    ...line,
    show: (depth) => ({ jobs: line.first(depth).map(({ facts }) => facts), unseen: undefined }),
  };
}

function manyKinds(kindOf: NonNullable<Policy['kindOf']>): KindLines {
  const lines = new Map<string, Line>();
  let size = 0;
  return {
    size: () => size,
    add: (job) => {
      job.kind = kindFor(kindOf, job);
      const line = lines.get(job.kind) ?? createLine();
      lines.set(job.kind, line);
      line.add(job, 0);
      size += 1;
      return true;
    },
    remove: (job) => {
      const line = lines.get(job.kind);
      line?.remove(job);
      if (line?.size() === 0) lines.delete(job.kind);
      size -= 1;
    },
    show: (depth, least) => {
      const each = Math.max(least, Math.ceil(depth / Math.max(1, lines.size)));
      const jobs: Candidate[] = [];
      const unseen: [string, number][] = [];
      for (const line of lines.values()) {
        const first = line.first(each);
        for (const { facts } of first) jobs.push(facts);
        const [last, left] = [first.at(-1), line.size() - first.length];
        if (last !== undefined && left > 0) unseen.push([last.facts.id, left]);
      }
      return { jobs: jobs.sort(compareInKey), unseen: Object.fromEntries(unseen) };
    },
  };
}

/** Jobs of which it can't be told are asked about one by one: they are shown as if they were of one kind. */
function kindFor(kindOf: NonNullable<Policy['kindOf']>, { facts }: SimJob): string {
  try {
    return kindOf(facts);
  } catch {
    return '';
  }
}
