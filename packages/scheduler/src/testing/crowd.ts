import type { Gate, ShareLevel } from '@pgqueue/core';
import { fairShare, policy } from '@pgqueue/core';
import type { LaneRead, TickInput } from '@pgqueue/postgres/internal';
import { createLeaderState } from '../state/leader-state.ts';
import { ask } from '../tick/snapshot.ts';
import { createLaneCache } from '../state/lanes/lane-cache.ts';
import { aSnapshot } from './planning.ts';

/**
 * Simulates many waiting keys in virtual time. Ticks read them like the SQL function `look`, plan by fair
 * shares, and dispatch.
 */
export interface Crowd {
  readonly enqueue: (key: string, jobs: number) => void;
  readonly pass: (ms: number) => void;
  /** Runs a tick. Returns the keys of the dispatched jobs, in order. */
  readonly tick: () => readonly string[];
  /** Jobs dispatched so far, by every key that ever waited. */
  readonly went: ReadonlyMap<string, number>;
  readonly known: () => number;
}

export interface CrowdOptions {
  /** Lanes that pages fill the cache with. */
  readonly lanesMax: number;
  /** Jobs dispatched by each tick. */
  readonly slots: number;
  readonly gates?: readonly Gate[];
  readonly level?: Omit<ShareLevel, 'by'>;
}

interface Waiting {
  readonly id: string;
  readonly seq: number;
  readonly createdMs: number;
}

const tickMs = 100;

export function createCrowd({ lanesMax, slots, gates = [], level = {} }: CrowdOptions): Crowd {
  const { plan, initial, written } = policy({
    gates,
    order: fairShare({ levels: [{ by: 'queue' }, { by: 'key', ...level }] }),
  });
  const view = createLaneCache({ went: () => {} }, lanesMax);
  const memory = { ...createLeaderState({ batchMax: slots, observe: () => {} }), view };
  const lanes = createLanes();
  const went = new Map<string, number>();
  let [state, nowMs] = [initial, 1_000_000];

  return {
    went,
    pass: (ms) => {
      nowMs += ms;
    },
    known: () => view.lanes().length,
    enqueue: (key, jobs) => {
      lanes.add(key, jobs, nowMs);
      if (!went.has(key)) went.set(key, 0);
    },
    tick: () => {
      nowMs += tickMs;
      const { keys, want, rows } = ask(memory, view.discovers());
      view.see(lanes.look({ keys, want, ...view.ask(nowMs, { lanes: [], rows }) }), { keys, nowMs });
      const pools = {
        default: { groups: [{ tasks: { t: { min: 1, max: 1 } }, slots, depth: slots }], ready: [] },
      };
      const made = plan(aSnapshot({ nowMs, lanes: view.lanes(), pools, batchMax: slots }), state);
      if (made.holds !== undefined) view.planned({ holds: made.holds, keeps: () => false });
      const ids = made.dispatch.map(({ id }) => id);
      state = written?.(made.state, { atMs: nowMs, ids: new Set(ids) }) ?? made.state;
      view.wrote(ids, new Map(ids.map((id, position) => [id, position])));
      memory.dispatched = ids.length;
      const gone = ids.map(lanes.remove);
      for (const key of gone) went.set(key, (went.get(key) ?? 0) + 1);
      return gone;
    },
  };
}

/** All waiting jobs. */
interface Lanes {
  readonly add: (key: string, jobs: number, nowMs: number) => void;
  /** Removes a job. Returns its key. */
  readonly remove: (id: string) => string;
  readonly look: (
    input: Pick<TickInput, 'keys' | 'want' | 'after' | 'lanes' | 'created'>,
  ) => readonly LaneRead[];
}

function createLanes(): Lanes {
  const waiting = new Map<string, Waiting[]>();
  let sorted: readonly string[] | undefined;
  let seq = 0;
  const laneOf = (key: string, read: { readonly paged: boolean; readonly wanted: number }): LaneRead => {
    const jobs = (waiting.get(key) ?? []).slice(0, read.wanted).map((job) => ({ ...blank, ...job }));
    return { queue: 'default', key, ...read, retryDueMs: null, jobs };
  };
  return {
    add: (key, jobs, createdMs) => {
      if (!waiting.has(key)) sorted = undefined;
      const lane = waiting.get(key) ?? [];
      for (let n = 0; n < jobs; n += 1) {
        seq += 1;
        lane.push({ id: `${key}/${seq}`, seq, createdMs });
      }
      waiting.set(key, lane);
    },
    remove: (id) => {
      const key = id.slice(0, id.lastIndexOf('/'));
      const left = (waiting.get(key) ?? []).filter((job) => job.id !== id);
      waiting.set(key, left);
      if (left.length === 0) {
        waiting.delete(key);
        sorted = undefined;
      }
      return key;
    },
    look: ({ keys, want, after, lanes, created }) => {
      sorted ??= [...waiting.keys()].toSorted();
      const from = sorted.findIndex((key) => after.queue === '' || key > after.key);
      const at = Math.max(0, from);
      const page = [...sorted.slice(at), ...sorted.slice(0, at)].slice(0, keys);
      const least = Math.max(1, Math.ceil(want / Math.max(1, page.length)));
      const named = new Map(lanes.map((lane) => [lane.key, lane.depth]));
      for (const [key, jobs] of created === null ? [] : waiting) {
        // keys in the order of their creation times
        if ((jobs.at(-1)?.createdMs ?? 0) >= (created?.fromMs ?? 0) && !named.has(key)) named.set(key, 1);
      }
      const inPage = new Set(page);
      const others = [...named.keys()].filter((key) => !inPage.has(key));
      return [...page, ...others].map((key) =>
        laneOf(key, { paged: inPage.has(key), wanted: Math.max(least, named.get(key) ?? 0) }),
      );
    },
  };
}

const blank = {
  priority: 0,
  task: 't',
  version: 1,
  rowVersion: '7',
  expiresMs: null,
  tries: 0,
  crashes: 0,
  attributes: {},
};
