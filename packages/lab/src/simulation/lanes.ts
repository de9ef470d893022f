import type { Lane, Policy, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Part, QueuePart } from './fairness.ts';
import { createPart, createQueuePart } from './fairness.ts';
import type { Gauge } from './gauge.ts';
import { createGauge } from './gauge.ts';
import type { KindLines } from './kind-lines.ts';
import { createKindLines } from './kind-lines.ts';
import type { SimJob } from '../line.ts';

/** Counts of a lane's jobs, by what became of them. */
export interface Tally {
  arrived: number;
  done: number;
  dead: number;
  expired: number;
  retries: number;
  crashes: number;
  deadlines: number;
  missed: number;
  firstMs: number;
  lastMs: number;
}

/** A queue's key in a simulation. */
export interface SimLane {
  readonly queue: string;
  readonly key: string;
  readonly line: KindLines;
  readonly gauge: Gauge;
  readonly part: Part;
  readonly tally: Tally;
  /** Waits from arrival to first start, in milliseconds. */
  readonly waits: number[];
  /** Delays past the deadline, in milliseconds, of jobs that ended too late. */
  readonly late: number[];
  /** Times at which its retries are due. */
  readonly dues: number[];
  readonly row: number;
  /** Lane as policies see it. Null: the lane has changed since. */
  seen: Lane | null;
  /** Depth for which `seen` was made. */
  seenDepth: number;
  /** Number of jobs that plans asked to see. */
  depth: number;
  /**
   * A gate held jobs of the lane in the last plan. `heldIn`: number of the last plan in which that was so.
   */
  held: boolean;
  heldIn: number;
  /** Index among the active lanes. -1: no job of the lane waits. */
  active: number;
}

export interface Lanes {
  readonly of: (queue: string, key: string) => SimLane;
  readonly all: () => Iterable<SimLane>;
  readonly add: (lane: SimLane, job: SimJob) => void;
  readonly remove: (lane: SimLane, job: SimJob) => void;
  readonly find: (name: string) => SimLane | undefined;
  readonly active: () => number;
  /** Returns the lanes in which jobs have begun to wait since the last call. */
  readonly begun: () => readonly SimLane[];
  /** Returns the lanes whose last waiting job has gone since the last call, and that are still empty. */
  readonly emptied: () => readonly SimLane[];
  /** Returns the lanes with waiting jobs, each with at least `depth` jobs if it has them. */
  readonly see: (depth: number) => Snapshot['lanes'];
}

/** Most lanes with a row of their own in series. All others share the last row. */
export const rowsMax = 200;
/** Rows before those of the lanes: running and waiting jobs of all lanes. */
export const firstRow = 2;
/** Least number of jobs that a policy sees of each lane, and of each kind in it. */
export const depthMin = 4;
/** Most jobs that a policy sees of one lane. */
export const depthMax = 4_096;

export function createLanes(options: LaneOptions): Lanes {
  const byName = new Map<string, SimLane>();
  // two maps find a lane without building its name, which would happen once a job
  const byQueue = new Map<string, Map<string, SimLane>>();
  const make = createMake(options);
  return {
    of: (queue, key) => {
      let keys = byQueue.get(queue);
      if (keys === undefined) byQueue.set(queue, (keys = new Map<string, SimLane>()));
      let lane = keys.get(key);
      if (lane === undefined) {
        keys.set(key, (lane = make({ queue, key }, byName.size)));
        byName.set(laneName(lane), lane);
      }
      return lane;
    },
    all: () => byName.values(),
    find: (name) => byName.get(name),
    ...createActive(),
  };
}

interface LaneOptions {
  readonly startMs: number;
  readonly weightOf: (lane: { readonly queue: string; readonly key: string }) => number;
  readonly queueWeight: (queue: string) => number;
  readonly kindOf: Policy['kindOf'];
  /** Parts of the queues, by name. */
  readonly parts: Map<string, QueuePart>;
}

function createMake({
  startMs,
  weightOf,
  queueWeight,
  kindOf,
  parts,
}: LaneOptions): (lane: { readonly queue: string; readonly key: string }, index: number) => SimLane {
  return ({ queue, key }, index) => {
    const part = parts.get(queue) ?? createQueuePart(queueWeight(queue));
    parts.set(queue, part);
    return {
      queue,
      key,
      line: createKindLines(kindOf),
      gauge: createGauge(startMs),
      part: createPart(part, weightOf({ queue, key })),
      tally: emptyTally(),
      waits: [],
      late: [],
      dues: [],
      row: firstRow + Math.min(index, rowsMax),
      seen: null,
      seenDepth: 0,
      depth: 0,
      held: false,
      heldIn: -1,
      active: -1,
    };
  };
}

/** Tracks the lanes in which jobs wait. */
function createActive(): Omit<Lanes, 'of' | 'all' | 'find'> {
  const active: SimLane[] = [];
  let begun: SimLane[] = [];
  let emptied: SimLane[] = [];
  return {
    active: () => active.length,
    begun: () => {
      const found = begun;
      if (found.length > 0) begun = [];
      return found;
    },
    emptied: () => {
      const found = emptied;
      if (found.length > 0) emptied = [];
      return found.filter(({ line }) => line.size() === 0);
    },
    add: (lane, job) => {
      const seen = lane.seen?.jobs.length ?? 0;
      const changes = lane.line.add(job, seen) || lane.seen?.more !== true;
      if (changes) lane.seen = null;
      if (lane.active >= 0) return;
      lane.active = active.push(lane) - 1;
      begun.push(lane);
    },
    remove: (lane, job) => {
      lane.line.remove(job);
      lane.seen = null;
      if (lane.line.size() > 0) return;
      const last = active.pop();
      if (last !== undefined && last !== lane) {
        active[lane.active] = last;
        last.active = lane.active;
      }
      lane.active = -1;
      emptied.push(lane);
    },
    see: (depth) => active.map((lane) => see(lane, depth)),
  };
}

function see(lane: SimLane, depth: number): Lane {
  const { seen } = lane;
  if (seen !== null && (!seen.more || lane.seenDepth >= depth)) return seen;
  const { queue, key, line, dues } = lane;
  lane.seenDepth = Math.max(depth, lane.depth);
  const { jobs, unseen } = line.show(lane.seenDepth, depthMin);
  const retryDueMs = dues.length === 0 ? null : Math.min(...dues);
  const facts = { queue, key, jobs: Object.freeze(jobs), retryDueMs, fresh: true };
  const more = jobs.length < line.size();
  const made = Object.freeze({ ...facts, more, ...(unseen === undefined ? {} : { unseen }) });
  lane.seen = made;
  return made;
}

function emptyTally(): Tally {
  return {
    arrived: 0,
    done: 0,
    dead: 0,
    expired: 0,
    retries: 0,
    crashes: 0,
    deadlines: 0,
    missed: 0,
    firstMs: Infinity,
    lastMs: -Infinity,
  };
}
