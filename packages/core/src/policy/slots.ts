import type { NodeGroup, PoolSeen, Snapshot } from './snapshot.ts';
import { own } from './snapshot.ts';

/** Whether one more job finds a place: `no_capable_node` stays true until other nodes come, `no_free_slot` until one is free. */
export type Fit = 'fits' | 'no_capable_node' | 'no_free_slot';

/** What decides which nodes can run a job. */
export interface JobKind {
  readonly task: string;
  readonly version: number;
}

/** The free places of every pool, used up as a plan is made. */
export interface Slots {
  /** Whether the job would fit now; changes nothing. */
  readonly fit: (pool: string, job: JobKind) => Fit;
  /** The same, and takes the place if there is one. */
  readonly take: (pool: string, job: JobKind) => Fit;
  /** How many places a pool has left, for whatever jobs; below 0 never. */
  readonly left: (pool: string) => number;
}

/** Up to so many groups, every set of groups is checked; above, only those that some job can go to, and all together. */
const exactGroupsMax = 6;

/**
 * Nodes of a pool differ in what they can run (other tasks, an older release), so a pool's free slots are no single number: ready
 * jobs that only busy nodes can run must not use up the places of idle ones. A set of jobs fits exactly if, for every set of
 * node groups, the jobs that can go nowhere else are no more than the groups' places (Hall's theorem).
 */
export function openSlots(snapshot: Pick<Snapshot, 'pools'>): Slots {
  const pools = new Map<string, PoolSlots>();
  const of = (pool: string): PoolSlots | undefined => {
    const seen = own(snapshot.pools, pool);
    if (seen === undefined) return undefined;
    const slots = pools.get(pool) ?? poolSlots(seen);
    pools.set(pool, slots);
    return slots;
  };
  return {
    fit: (pool, job) => of(pool)?.fit(job) ?? 'no_capable_node',
    take: (pool, job) => {
      const slots = of(pool);
      const fit = slots?.fit(job) ?? 'no_capable_node';
      if (fit === 'fits') slots?.put(job, 1);
      return fit;
    },
    left: (pool) => Math.max(0, of(pool)?.left() ?? 0),
  };
}

interface PoolSlots {
  readonly fit: (job: JobKind) => Fit;
  readonly put: (job: JobKind, count: number) => void;
  readonly left: () => number;
}

/** A set of groups, as bits; and the places in it that are not spoken for. */
interface GroupSet {
  readonly bits: bigint;
  places: number;
}

function poolSlots(pool: PoolSeen): PoolSlots {
  const { groups } = pool;
  const all = (1n << BigInt(groups.length)) - 1n;
  const sets: GroupSet[] = [];
  const taken = new Map<bigint, number>();
  const capable = new Map<string, Map<number, bigint>>();

  const addSet = (bits: bigint): void => {
    if (bits === 0n || sets.some((set) => set.bits === bits)) return;
    let places = placesOf(groups, bits);
    for (const [jobs, count] of taken) if ((jobs & ~bits) === 0n) places -= count;
    sets.push({ bits, places });
  };
  const bitsOf = ({ task, version }: JobKind): bigint => {
    const known = capable.get(task)?.get(version);
    if (known !== undefined) return known;
    let bits = 0n;
    groups.forEach((group, index) => {
      if (canRun(group, task, version)) bits |= 1n << BigInt(index);
    });
    const versions = capable.get(task) ?? new Map<number, bigint>();
    capable.set(task, versions.set(version, bits));
    if (groups.length > exactGroupsMax) addSet(bits);
    return bits;
  };

  if (groups.length <= exactGroupsMax) for (let bits = 1n; bits <= all; bits += 1n) addSet(bits);
  else addSet(all);
  const put = (job: JobKind, count: number): void => {
    const bits = bitsOf(job);
    if (bits === 0n) return;
    if (groups.length > exactGroupsMax) taken.set(bits, (taken.get(bits) ?? 0) + count);
    for (const set of sets) if ((bits & ~set.bits) === 0n) set.places -= count;
  };
  for (const { count, ...kind } of pool.ready) put(kind, count);

  return {
    fit: (job) => {
      const bits = bitsOf(job);
      if (bits === 0n) return 'no_capable_node';
      const full = sets.some((set) => (bits & ~set.bits) === 0n && set.places < 1);
      return full ? 'no_free_slot' : 'fits';
    },
    put,
    left: () => sets.find((set) => set.bits === all)?.places ?? 0,
  };
}

function placesOf(groups: readonly NodeGroup[], bits: bigint): number {
  let places = 0;
  groups.forEach((group, index) => {
    if ((bits & (1n << BigInt(index))) !== 0n) places += group.depth;
  });
  return places;
}

/** Whether a node with these tasks knows that version of the task. */
export function canRun(group: Pick<NodeGroup, 'tasks'>, task: string, version: number): boolean {
  const range = own(group.tasks, task);
  return range !== undefined && version >= range.min && version <= range.max;
}
