import type { Observer, Settlement } from '@pgqueue/core';
import type { TickRead } from '@pgqueue/postgres/internal';
import type { Aside } from './lanes/deferred-lanes.ts';
import { createAside } from './lanes/deferred-lanes.ts';
import type { Cursors } from './lanes/lane-cursors.ts';
import { createCursors } from './lanes/lane-cursors.ts';
import type { Consumption } from './consumption.ts';
import { measureConsumption } from './consumption.ts';
import type { InFlightItems } from './items/in-flight.ts';
import { createInFlightItems } from './items/in-flight.ts';
import type { Unreadable } from './unreadable.ts';
import { createUnreadable } from './unreadable.ts';
import type { SkipAhead } from './lanes/lookahead.ts';
import { createSkipAhead } from './lanes/lookahead.ts';
import type { View } from './lanes/lane-cache.ts';
import { createView } from './lanes/lane-cache.ts';

/** Everything a leader remembers between ticks. */
export interface LeaderState {
  readonly view: View;
  readonly inFlight: InFlightItems;
  readonly consumption: Consumption;
  readonly lookahead: SkipAhead;
  readonly aside: Aside;
  readonly cursors: Cursors;
  readonly unreadable: Unreadable;
  /** Ended attempts that no plan has seen yet. */
  settled: readonly Settlement[];
  epoch: number | undefined;
  feeds: boolean;
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
  /** The last full read, and the time of its answer. */
  lastLook: { readonly read: TickRead; readonly config: string; readonly atMs: number } | undefined;
  /** Highest seq of any job seen. */
  seq: number;
  /** Jobs reported as ended since the last read, when nothing waited for their slots. */
  ended: readonly string[];
  /** True if a tick planned from hints and skipped a read that is due. */
  owesLook: boolean;
  /** Start of the next item rescan, and when it is due. Known items below the start are read by position. */
  readonly items: { floor: number; rescanAt: number };
}

export function createMemory({
  batchMax,
  observe,
}: {
  readonly batchMax: number;
  readonly observe: Observer;
}): LeaderState {
  const cursors = createCursors();
  return {
    view: createView(cursors),
    cursors,
    inFlight: createInFlightItems(),
    consumption: measureConsumption(),
    lookahead: createSkipAhead(),
    aside: createAside(),
    unreadable: createUnreadable(observe),
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
    lastLook: undefined,
    seq: 0,
    ended: [],
    owesLook: false,
    items: { floor: 0, rescanAt: -Infinity },
  };
}
