import type { Lane, Snapshot } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Part } from './fairness.ts';
import { createPart } from './fairness.ts';
import type { Gauge } from './gauge.ts';
import { createGauge } from './gauge.ts';
import type { Line, SimJob } from './line.ts';
import { createLine } from './line.ts';

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
  readonly line: Line;
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
  /** So many of its jobs are to be seen. */
  depth: number;
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
  /** Those with waiting jobs, with so many jobs each at least. */
  readonly see: (depth: number) => Snapshot['lanes'];
}

/** Lanes that have a row of their own in series; the others share the last one. */
export const rowsMax = 200;
/** Rows in front of them: running and waiting jobs of all lanes. */
export const firstRow = 2;
/** Jobs that a policy may see of one lane at most. */
export const depthMax = 4_096;

export function createLanes(options: {
  readonly startMs: number;
  readonly weightOf: (lane: { readonly queue: string; readonly key: string }) => number;
}): Lanes {
  const byName = new Map<string, SimLane>();
  // found by queue and key without making a name: once a job
  const byQueue = new Map<string, Map<string, SimLane>>();
  const active: SimLane[] = [];
  const make = (queue: string, key: string): SimLane => {
    const lane: SimLane = {
      queue,
      key,
      line: createLine(),
      gauge: createGauge(options.startMs),
      part: createPart(options.weightOf({ queue, key })),
      tally: emptyTally(),
      waits: [],
      late: [],
      dues: [],
      row: firstRow + Math.min(byName.size, rowsMax),
      seen: null,
      depth: 0,
      active: -1,
    };
    byName.set(laneName(lane), lane);
    return lane;
  };
  return {
    of: (queue, key) => {
      let keys = byQueue.get(queue);
      if (keys === undefined) byQueue.set(queue, (keys = new Map<string, SimLane>()));
      let lane = keys.get(key);
      if (lane === undefined) keys.set(key, (lane = make(queue, key)));
      return lane;
    },
    all: () => byName.values(),
    find: (name) => byName.get(name),
    active: () => active.length,
    add: (lane, job) => {
      const seen = lane.seen?.jobs.length ?? 0;
      const changes = lane.line.add(job, seen) || lane.seen?.more !== true;
      if (changes) lane.seen = null;
      if (lane.active >= 0) return;
      lane.active = active.push(lane) - 1;
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
    },
    see: (depth) => active.map((lane) => see(lane, depth)),
  };
}

function see(lane: SimLane, depth: number): Lane {
  const { seen } = lane;
  if (seen !== null && (!seen.more || seen.jobs.length >= depth)) return seen;
  const jobs = Object.freeze(lane.line.first(Math.max(depth, lane.depth)).map(({ facts }) => facts));
  const { queue, key, line, dues } = lane;
  const retryDueMs = dues.length === 0 ? null : Math.min(...dues);
  const made = Object.freeze({ queue, key, jobs, more: jobs.length < line.size(), retryDueMs, fresh: true });
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
