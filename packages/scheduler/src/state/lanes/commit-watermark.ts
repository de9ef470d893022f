import type { LaneRead } from '@pgqueue/postgres/internal';
import { jobsOf } from './known-job.ts';

/** Tracks a commit watermark: the seq up to which no transaction can commit another job. */
export interface Marks {
  /** Notes a read. `enqueuers`: transactions that were open during a read that returned these lanes. */
  readonly note: (lanes: readonly LaneRead[], enqueuers: readonly string[]) => void;
  readonly safe: () => number;
  readonly reset: () => void;
}

/** All numbers up to `seq` were drawn by transactions that have ended, or by `enqueuers`. */
interface Mark {
  readonly seq: number;
  readonly enqueuers: readonly string[];
}

/** Most marks kept. Any of them can be left out: while a transaction stays open, every other one is. */
const marksMax = 64;

export function createMarks(): Marks {
  let marks: Mark[] = [];
  let highest = 0;
  let safe = 0;
  return {
    note: (lanes, enqueuers) => {
      const open = new Set(enqueuers);
      for (let oldest = marks[0]; oldest !== undefined; oldest = marks[0]) {
        if (oldest.enqueuers.some((transaction) => open.has(transaction))) break;
        safe = Math.max(safe, oldest.seq);
        marks.shift();
      }
      for (const lane of lanes) for (const { seq } of jobsOf(lane)) highest = Math.max(highest, seq);
      if (marks.at(-1)?.seq === highest) return;
      if (marks.length === marksMax) marks = marks.filter((_, index) => index % 2 === 0);
      marks.push({ seq: highest, enqueuers });
    },
    safe: () => safe,
    reset: () => {
      [marks, highest, safe] = [[], 0, 0];
    },
  };
}
