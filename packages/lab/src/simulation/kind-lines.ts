import type { Candidate, Policy } from '@pgqueue/core';
import { compareInKey } from '@pgqueue/core';
import type { Line, SimJob } from '../line.ts';
import { createLine } from '../line.ts';

/** Waiting jobs of one lane, as policies see them. */
export interface KindLines {
  readonly size: () => number;
  /**
   * Adds a job. Reports whether the jobs that were shown last, of which there are `shown`, may have changed.
   */
  readonly add: (job: SimJob, shown: number) => boolean;
  readonly remove: (job: SimJob) => void;
  /**
   * Returns the first `depth` jobs. If the policy distinguishes kinds: `depth` jobs shared evenly between the
   * kinds, the first of each, and at least `least` of each.
   */
  readonly show: (depth: number, least: number) => Shown;
}

/** Some of the waiting jobs of a lane, in their order. */
export interface Shown {
  readonly jobs: readonly Candidate[];
  /** As {@link Lane.unseen}. Undefined: the policy does not distinguish kinds. */
  readonly unseen: Readonly<Record<string, number>> | undefined;
}

/**
 * Creates the lines of a lane. If gates hold many jobs of a lane, they hold all jobs of one kind together.
 * Showing the first few of each kind then gives the same plan as showing all of them, at a cost that does not
 * grow with the number of jobs.
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

/**
 * Returns the kind of a job. Jobs whose kind can't be determined are asked about one by one, and are shown as
 * one kind.
 */
function kindFor(kindOf: NonNullable<Policy['kindOf']>, { facts }: SimJob): string {
  try {
    return kindOf(facts);
  } catch {
    return '';
  }
}
