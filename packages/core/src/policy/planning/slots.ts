import type { NodeGroup, PoolSeen, Snapshot } from '../snapshot.ts';
import { own } from '../snapshot.ts';

/**
 * Fit of one more job. `no_capable_node` stays until other nodes come, `no_free_slot` until a place is free.
 */
export type Fit = 'fits' | 'no_capable_node' | 'no_free_slot';

/** Task and payload version of a job, which decide which nodes can run it. */
export interface JobKind {
  readonly task: string;
  readonly version: number;
}

/** Free places of every pool, used up as a plan is made. {@link NodeGroup.depth} gives their number. */
export interface Slots {
  /** Returns whether the job would fit, and changes nothing. */
  readonly fit: (pool: string, job: JobKind) => Fit;
  /** Same as `fit`, and takes the place if there is one. */
  readonly take: (pool: string, job: JobKind) => Fit;
  /** Number of places that a pool has left for any kind of job, at least 0. */
  readonly left: (pool: string) => number;
}

/**
 * Most node groups for which every set of groups is checked. Above it, only the sets that some kind of job
 * can go to are checked, and the set of all groups.
 */
const exactGroupsMax = 6;

/**
 * Opens the places of a snapshot's pools. Nodes of a pool differ in what they can run (other tasks, an older
 * release), so the number of free slots is not enough: ready jobs that only busy nodes can run must not use
 * up the places of idle ones. A set of jobs fits exactly if, for every set of node groups, the jobs that can
 * go nowhere else are no more than the places of these groups (Hall's theorem).
 */
export function openSlots(snapshot: Pick<Snapshot, 'pools'>): Slots {
  const pools = new Map<string, PoolSlots>();
  const of = (pool: string): PoolSlots | undefined => {
    const known = pools.get(pool);
    if (known !== undefined) return known;
    const seen = own(snapshot.pools, pool);
    if (seen === undefined) return undefined;
    const slots = poolSlots(seen);
    pools.set(pool, slots);
    return slots;
  };
  return {
    fit: (pool, job) => of(pool)?.fit(job) ?? 'no_capable_node',
    take: (pool, job) => of(pool)?.take(job) ?? 'no_capable_node',
    left: (pool) => Math.max(0, of(pool)?.left() ?? 0),
  };
}

interface PoolSlots {
  readonly fit: (job: JobKind) => Fit;
  readonly take: (job: JobKind) => Fit;
  readonly left: () => number;
}

/** A set of node groups, as bits, and its places that are not taken. */
interface GroupSet {
  readonly bits: bigint;
  places: number;
}

/**
 * Node groups that can run jobs of a kind, as bits, and the sets that contain all of these groups: a job of
 * the kind takes a place in each of them.
 */
interface Capable {
  readonly bits: bigint;
  readonly sets: GroupSet[];
  /** Number of jobs of the kind that went. A set that is added later subtracts them. */
  taken: number;
}

function poolSlots(pool: PoolSeen): PoolSlots {
  const { groups } = pool;
  const exact = groups.length <= exactGroupsMax;
  const all: GroupSet = { bits: (1n << BigInt(groups.length)) - 1n, places: 0 };
  const sets: GroupSet[] = [];
  const capable = new Map<string, Map<number, Capable>>();
  const kinds: Capable[] = [];
  /** Last result: jobs of one kind mostly come one after another. */
  let last: { readonly task: string; readonly version: number; readonly kind: Capable } | undefined;

  const addSet = (set: GroupSet): void => {
    const { bits } = set;
    if (bits === 0n || sets.some((other) => other.bits === bits)) return;
    set.places = placesOf(groups, bits);
    for (const kind of kinds) {
      if (kind.bits === 0n || (kind.bits & ~bits) !== 0n) continue;
      set.places -= kind.taken;
      kind.sets.push(set);
    }
    sets.push(set);
  };
  const find = (task: string, version: number): Capable => {
    const known = capable.get(task)?.get(version);
    if (known !== undefined) return known;
    let bits = 0n;
    groups.forEach((group, index) => {
      if (canRun(group, task, version)) bits |= 1n << BigInt(index);
    });
    const alike = kinds.find((kind) => kind.bits === bits);
    const kind = alike ?? {
      bits,
      sets: bits === 0n ? [] : sets.filter((set) => (bits & ~set.bits) === 0n),
      taken: 0,
    };
    if (alike === undefined) kinds.push(kind);
    const versions = capable.get(task) ?? new Map<number, Capable>();
    capable.set(task, versions.set(version, kind));
    if (!exact) addSet({ bits, places: 0 });
    return kind;
  };
  const kindOf = ({ task, version }: JobKind): Capable => {
    if (last !== undefined && last.task === task && last.version === version) return last.kind;
    last = { task, version, kind: find(task, version) };
    return last.kind;
  };

  if (exact) for (let bits = 1n; bits < all.bits; bits += 1n) addSet({ bits, places: 0 });
  addSet(all);
  const put = (kind: Capable, count: number): void => {
    kind.taken += count;
    for (const set of kind.sets) set.places -= count;
  };
  // ready items beyond the depth of their nodes have no place, and take none from other jobs
  for (const { count, ...job } of pool.ready) {
    const kind = kindOf(job);
    put(
      kind,
      kind.sets.reduce((most, { places }) => Math.min(most, Math.max(0, places)), count),
    );
  }

  const fit = ({ bits, sets: own }: Capable): Fit => {
    if (bits === 0n) return 'no_capable_node';
    for (const { places } of own) if (places < 1) return 'no_free_slot';
    return 'fits';
  };
  return {
    fit: (job) => fit(kindOf(job)),
    take: (job) => {
      const kind = kindOf(job);
      const fits = fit(kind);
      if (fits === 'fits') put(kind, 1);
      return fits;
    },
    left: () => all.places,
  };
}

function placesOf(groups: readonly NodeGroup[], bits: bigint): number {
  let places = 0;
  groups.forEach((group, index) => {
    if ((bits & (1n << BigInt(index))) !== 0n) places += group.depth;
  });
  return places;
}

/**
 * Reports whether jobs of this kind may go in bundles: all nodes of the pool that can run them take bundles.
 */
export function takesBundles(pool: PoolSeen | undefined, { task, version }: JobKind): boolean {
  const capable = pool?.groups.filter((group) => canRun(group, task, version)) ?? [];
  return capable.every(({ tasks }) => own(tasks, task)?.single !== true);
}

/** Reports whether a node with these tasks runs that version of the task. */
export function canRun(group: Pick<NodeGroup, 'tasks'>, task: string, version: number): boolean {
  const range = own(group.tasks, task);
  return range !== undefined && version >= range.min && version <= range.max;
}
