import type { Observer, Settlement } from '@pgqueue/core';
import type { TickRead } from '@pgqueue/postgres';
import type { Aside } from './lanes/deferred-lanes.ts';
import { createAside } from './lanes/deferred-lanes.ts';
import type { Cursors } from './lanes/lane-cursors.ts';
import { createCursors } from './lanes/lane-cursors.ts';
import type { Consumption } from './consumption.ts';
import { measureConsumption } from './consumption.ts';
import type { Ledger } from './items/in-flight.ts';
import { createLedger } from './items/in-flight.ts';
import type { Unreadable } from './unreadable.ts';
import { createUnreadable } from './unreadable.ts';
import type { SkipAhead } from './lanes/lookahead.ts';
import { createSkipAhead } from './lanes/lookahead.ts';
import type { View } from './lanes/lane-cache.ts';
import { createView } from './lanes/lane-cache.ts';

/** Owns all that a leader remembers between ticks. */
export interface Memory {
  readonly view: View;
  readonly ledger: Ledger;
  readonly consumption: Consumption;
  readonly skipAhead: SkipAhead;
  readonly aside: Aside;
  readonly cursors: Cursors;
  readonly unreadable: Unreadable;
  /** Ended attempts that no plan has seen yet. */
  settled: readonly Settlement[];
  epoch: number | undefined;
  feeds: boolean;
  fedEpoch: number | undefined;
  room: number;
  /** The last plan left nothing to be looked for. */
  caughtUp: boolean;
  /** Jobs that the next batch may have. */
  batch: number;
  /** How long ticks that dispatched take, smoothed. */
  tickMs: number;
  nowMs: number;
  writtenAt: number;
  /** When it was told last where batches begin. */
  frontAt: number;
  /** As the last tick saw them. */
  nodes: TickRead['state']['nodes'];
  capabilities: string;
  after: string;
  /** By the last tick. */
  dispatched: number;
  /** The last one that was not brief, and when its answer came. */
  lastLook: { readonly read: TickRead; readonly config: string; readonly atMs: number } | undefined;
  /** The highest seq of a job that was seen. */
  seq: number;
  /** Jobs that are said to have ended since the last look: nothing waited for their slots. */
  ended: readonly string[];
  /** A tick was supposed, and what it did not look at is overdue. */
  owesLook: boolean;
  /** Where work items are looked at from, beside those that are known, and when again. */
  readonly items: { floor: number; rescanAt: number };
}

export function createMemory({
  batchMax,
  observe,
}: {
  readonly batchMax: number;
  readonly observe: Observer;
}): Memory {
  const cursors = createCursors();
  return {
    view: createView(cursors),
    cursors,
    ledger: createLedger(),
    consumption: measureConsumption(),
    skipAhead: createSkipAhead(),
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
