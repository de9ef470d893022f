import type { Lane, Policy, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Part, QueuePart } from './fairness.ts';
import { createPart, createQueuePart } from './fairness.ts';
import type { Gauge } from './gauge.ts';
import { createGauge } from './gauge.ts';
import type { KindLines } from './kind-lines.ts';
import { createKindLines } from './kind-lines.ts';
import type { SimJob } from '../line.ts';

/** What became of the jobs of a lane. */
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
  /** From arrival to first start. */
  readonly waits: number[];
  /** Past the deadline, of jobs that were done too late. */
  readonly late: number[];
  /** When its retries are due. */
  readonly dues: number[];
  readonly row: number;
  /** As policies see it; null: it has changed. */
  seen: Lane | null;
  /** So many of its jobs were asked for when that was made. */
  seenDepth: number;
  /** So many of its jobs are to be seen. */
  depth: number;
  /** A gate held its head in the last plan that looked at it; `heldIn`: the number of the last plan that held any of it. */
  held: boolean;
  heldIn: number;
  /** Its place among the active ones; −1: nothing of it waits. */
  active: number;
}

export interface Lanes {
  readonly of: (queue: string, key: string) => SimLane;
  readonly all: () => Iterable<SimLane>;
  readonly add: (lane: SimLane, job: SimJob) => void;
  readonly remove: (lane: SimLane, job: SimJob) => void;
  readonly find: (name: string) => SimLane | undefined;
  readonly active: () => number;
  /** Those in which something waits since this was asked last, where nothing did before. */
  readonly begun: () => readonly SimLane[];
  /** Those in which something waited, and nothing does. */
  readonly emptied: () => readonly SimLane[];
  /** Those with waiting jobs, with so many jobs each at least. */
  readonly see: (depth: number) => Snapshot['lanes'];
}

/** Lanes that have a row of their own in series; the others share the last one. */
export const rowsMax = 200;
/** Rows in front of them: running and waiting jobs of all lanes. */
export const firstRow = 2;
/** Jobs of each lane, and of each kind in it, that a policy sees at least. */
export const depthMin = 4;
/** Jobs that a policy may see of one lane at most. */
export const depthMax = 4_096;

export function createLanes(options: LaneOptions): Lanes {
  const byName = new Map<string, SimLane>();
  // found by queue and key without making a name: once a job
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
}

function createMake({
  startMs,
  weightOf,
  queueWeight,
  kindOf,
}: LaneOptions): (lane: { readonly queue: string; readonly key: string }, index: number) => SimLane {
  const parts = new Map<string, QueuePart>();
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

/** The lanes in which something waits. */
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
