import type { Plan, PlannedJob } from './plan.ts';
import type { Policy } from './policy.ts';
import type { Slots } from './slots.ts';
import { openSlots } from './slots.ts';
import type { Candidate, Snapshot } from './snapshot.ts';
import { compareInKey, compareText, own, poolOf } from './snapshot.ts';

/** Who was served last: by queue its key, by pool its queue. */
export interface RoundRobinState {
  readonly keys: Readonly<Record<string, string>>;
  readonly queues: Readonly<Record<string, string>>;
}

/**
 * FIFO per key, round-robin over keys: the pools in turn, in each its queues in turn, in each its keys in turn, beginning behind
 * whoever was served last; within a key by priority, then in the order of enqueuing. So every key with a job that can run is
 * served before any is served twice, however many jobs it has and whatever priorities it gives them.
 *
 * Within a key, a job that finds no place is passed over: jobs behind it that other nodes can run do not wait for it.
 */
export function roundRobin(): Policy<RoundRobinState> {
  return {
    name: 'round-robin',
    initial: { keys: {}, queues: {} },
    restore: (saved) => {
      const { keys, queues } = (saved ?? {}) as Partial<RoundRobinState>;
      return { keys: keys ?? {}, queues: queues ?? {} };
    },
    cursors: ({ keys }) => keys,
    plan: planRound,
  };
}

function planRound(snapshot: Snapshot, state: RoundRobinState): Plan<RoundRobinState> {
  const slots = openSlots(snapshot);
  const held = new Map<string, number>();
  const hold = (reason: string, count: number): void => {
    if (count > 0) held.set(reason, (held.get(reason) ?? 0) + count);
  };
  const pools = poolLines(snapshot, state, slots, hold);
  const dispatch: PlannedJob[] = [];
  let open = pools;
  while (open.length > 0 && dispatch.length < snapshot.batchMax) {
    open = open.filter((pool) => {
      const job = dispatch.length < snapshot.batchMax ? pool.next() : null;
      if (typeof job === 'object' && job !== null) dispatch.push({ id: job.id, pool: pool.name });
      return job !== undefined;
    });
  }
  hold(
    'batch_full',
    pools.reduce((sum, pool) => sum + pool.waiting(), 0),
  );
  const queues = pools.flatMap((pool) => pool.queues);
  return {
    dispatch,
    held: Object.fromEntries([...held].toSorted(([a], [b]) => compareText(a, b))),
    state: {
      keys: Object.fromEntries(
        queues.flatMap((queue) => {
          const cursor = queue.cursor() ?? own(state.keys, queue.name);
          return cursor === undefined ? [] : [[queue.name, cursor] as const];
        }),
      ),
      queues: Object.fromEntries(
        pools.flatMap(({ name, served }) => {
          const last = served() ?? own(state.queues, name);
          return last === undefined ? [] : [[name, last] as const];
        }),
      ),
    },
  };
}

type Hold = (reason: string, count: number) => void;

/** The candidates of one pool, in turn. `next`: a job; undefined when none is left that fits. */
interface PoolLine {
  readonly name: string;
  readonly queues: readonly QueueLine[];
  readonly next: () => Candidate | undefined;
  readonly served: () => string | undefined;
  readonly waiting: () => number;
}

function poolLines(
  snapshot: Snapshot,
  state: RoundRobinState,
  slots: Slots,
  hold: Hold,
): readonly PoolLine[] {
  const byQueue = Map.groupBy(snapshot.keys, ({ queue }) => queue);
  const byPool = Map.groupBy([...byQueue.keys()].toSorted(compareText), (queue) => poolOf(snapshot, queue));
  const jobs = Map.groupBy(snapshot.candidates, ({ queue, key }) => JSON.stringify([queue, key]));
  return [...byPool]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([pool, names]) => {
      const fits = (job: Candidate): boolean => {
        const fit = slots.take(pool, job);
        if (fit !== 'fits') hold(fit, 1);
        return fit === 'fits';
      };
      const queues = behind(names, own(state.queues, pool)).map((queue) => {
        const lanes = (byQueue.get(queue) ?? [])
          .toSorted((a, b) => a.ring - b.ring || compareText(a.key, b.key))
          .map(({ key }) => ({
            key,
            jobs: (jobs.get(JSON.stringify([queue, key])) ?? []).toSorted(compareInKey),
          }));
        return queueLine(queue, lanes, fits, () => slots.left(pool) > 0);
      });
      return poolLine(pool, queues);
    });
}

/** The names behind the one served last, then those up to it. */
function behind(names: readonly string[], last: string | undefined): readonly string[] {
  if (last === undefined) return names;
  const after = names.filter((name) => compareText(name, last) > 0);
  return [...after, ...names.slice(0, names.length - after.length)];
}

function poolLine(name: string, queues: readonly QueueLine[]): PoolLine {
  let open = queues;
  let at = 0;
  let served: string | undefined;
  return {
    name,
    queues,
    served: () => served,
    waiting: () => open.reduce((sum, queue) => sum + queue.waiting(), 0),
    next: () => {
      while (open.length > 0) {
        const queue = open[at % open.length];
        const job = queue?.next();
        if (queue !== undefined && job !== undefined) {
          served = queue.name;
          at = (at % open.length) + 1;
          return job;
        }
        at %= open.length;
        open = open.filter((other) => other !== queue);
      }
      return undefined;
    },
  };
}

interface QueueLine {
  readonly name: string;
  readonly next: () => Candidate | undefined;
  /** The key that the next snapshot begins behind; undefined: as before. */
  readonly cursor: () => string | undefined;
  readonly waiting: () => number;
}

interface Lane {
  readonly key: string;
  readonly jobs: readonly Candidate[];
}

function queueLine(
  name: string,
  lanes: readonly Lane[],
  fits: (job: Candidate) => boolean,
  roomLeft: () => boolean,
): QueueLine {
  let round = lanes.map((lane) => ({ ...lane, at: 0 }));
  let following: typeof round = [];
  let index = 0;
  let served: string | undefined;
  const next = (): Candidate | undefined => {
    for (;;) {
      const lane = round[index];
      if (lane === undefined) {
        if (following.length === 0) return undefined;
        [round, following, index] = [following, [], 0];
        continue;
      }
      index += 1;
      while (lane.at < lane.jobs.length) {
        const job = lane.jobs[lane.at];
        lane.at += 1;
        if (job === undefined || !fits(job)) continue;
        following.push(lane);
        served = lane.key;
        return job;
      }
    }
  };
  return {
    name,
    next,
    // A page of keys none of which has anything to run must not hide those behind it: the next one begins at its end.
    cursor: () => served ?? (roomLeft() ? lanes.at(-1)?.key : undefined),
    waiting: () =>
      [...round.slice(index), ...following].reduce((sum, lane) => sum + lane.jobs.length - lane.at, 0),
  };
}
