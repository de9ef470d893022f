import type { Observer, Settlement } from '@pgqueue/core';
import type { TickRead } from '@pgqueue/postgres/internal';
import type { Backlog } from './backlog.ts';
import type { DeferredLanes } from './lanes/deferred-lanes.ts';
import { createDeferredLanes } from './lanes/deferred-lanes.ts';
import type { OpenPages } from './lanes/open-page.ts';
import { createOpenPages } from './lanes/open-page.ts';
import type { LaneCursors } from './lanes/lane-cursors.ts';
import { createLaneCursors } from './lanes/lane-cursors.ts';
import type { Consumption } from './consumption.ts';
import { measureConsumption } from './consumption.ts';
import type { InFlightItems } from './items/in-flight.ts';
import { createInFlightItems } from './items/in-flight.ts';
import type { Unreadable } from './unreadable.ts';
import { createUnreadable } from './unreadable.ts';
import type { Lookahead } from './lanes/lookahead.ts';
import { createLookahead } from './lanes/lookahead.ts';
import type { MovingKeys } from './lanes/moving-keys.ts';
import { createMovingKeys } from './lanes/moving-keys.ts';
import type { LaneCache } from './lanes/lane-cache.ts';
import { createLaneCache } from './lanes/lane-cache.ts';
import type { Unheard } from './unheard.ts';
import { createUnheard } from './unheard.ts';
import type { Wakes } from './wakes.ts';
import { createWakes } from './wakes.ts';

/** Everything that a leader remembers between ticks, except the state of the policy, which `planner.ts` keeps. */
export interface LeaderState {
  readonly laneCache: LaneCache;
  readonly openPages: OpenPages;
  readonly inFlight: InFlightItems;
  readonly consumption: Consumption;
  readonly lookahead: Lookahead;
  readonly deferred: DeferredLanes;
  readonly cursors: LaneCursors;
  readonly unreadable: Unreadable;
  readonly moving: MovingKeys;
  /** Ended attempts that no plan has seen yet. */
  settled: readonly Settlement[];
  epoch: number | undefined;
  readonly feeds: boolean;
  fedEpoch: number | undefined;
  room: number;
  /** True if the last plan left nothing to be read. */
  caughtUp: boolean;
  /** Size limit of the next batch, in jobs. */
  batch: number;
  /** Smoothed duration of ticks that dispatched, in milliseconds. */
  tickMs: number;
  nowMs: number;
  writtenAt: number;
  /** Last time the front was moved up. */
  frontAt: number;
  /** Nodes as the last tick saw them. */
  nodes: TickRead['state']['nodes'];
  capabilities: string;
  after: string;
  /** Jobs dispatched by the last tick. */
  dispatched: number;
  /** Jobs of the one lane that has more waiting than is known. */
  backlog: Backlog | undefined;
  /** The last full read, and the time of its answer. */
  lastLook: { readonly read: TickRead; readonly config: string; readonly atMs: number } | undefined;
  readonly unheard: Unheard;
  readonly wakes: Wakes;
  /** Jobs reported as ended since the last read, when nothing waited for their slots. */
  ended: readonly string[];
  /** True if a tick planned from hints and skipped a read that is due. */
  owesLook: boolean;
  /** Start of the next item rescan, and when it is due. Known items below the start are read by position. */
  readonly items: { floor: number; rescanAt: number };
}

export function createLeaderState({
  batchMax,
  observe,
}: {
  readonly batchMax: number;
  readonly observe: Observer;
}): LeaderState {
  const cursors = createLaneCursors();
  const laneCache = createLaneCache(cursors);
  return {
    laneCache,
    openPages: createOpenPages(),
    cursors,
    inFlight: createInFlightItems(),
    consumption: measureConsumption(),
    lookahead: createLookahead(),
    deferred: createDeferredLanes(),
    unreadable: createUnreadable(observe),
    moving: createMovingKeys({ laneCache, cursors }),
    settled: [],
    epoch: undefined,
    feeds: false,
    fedEpoch: undefined,
    room: batchMax,
    caughtUp: false,
    batch: batchMax,
    tickMs: 20,
    nowMs: 0,
    writtenAt: 0,
    frontAt: -Infinity,
    nodes: [],
    capabilities: '',
    after: '',
    dispatched: 0,
    backlog: undefined,
    lastLook: undefined,
    unheard: createUnheard(),
    wakes: createWakes(),
    ended: [],
    owesLook: false,
    items: { floor: 0, rescanAt: -Infinity },
  };
}
