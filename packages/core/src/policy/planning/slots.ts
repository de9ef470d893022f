import type { NodeGroup, PoolSeen, Snapshot } from '../snapshot.ts';
import { own } from '../snapshot.ts';

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

/** A set of groups, as bits; and the places in it that are not spoken for. */
interface GroupSet {
  readonly bits: bigint;
  places: number;
}

/** The groups that can run jobs of a kind, as bits; and the sets that have all of those: a job of it takes a place in each. */
interface Capable {
  readonly bits: bigint;
  readonly sets: GroupSet[];
  /** Those that went, where sets may be added. */
  taken: number;
}

function poolSlots(pool: PoolSeen): PoolSlots {
  const { groups } = pool;
  const exact = groups.length <= exactGroupsMax;
  const all: GroupSet = { bits: (1n << BigInt(groups.length)) - 1n, places: 0 };
  const sets: GroupSet[] = [];
  const capable = new Map<string, Map<number, Capable>>();
  const kinds: Capable[] = [];
  /** Jobs of one kind mostly come one after another. */
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
  // those beyond what their nodes will soon take have no place, and take none of others
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

/** Whether jobs of this kind may go in bundles: all nodes of the pool that can run them take those. */
export function takesBundles(pool: PoolSeen | undefined, { task, version }: JobKind): boolean {
  const capable = pool?.groups.filter((group) => canRun(group, task, version)) ?? [];
  return capable.every(({ tasks }) => own(tasks, task)?.single !== true);
}

/** Whether a node with these tasks knows that version of the task. */
export function canRun(group: Pick<NodeGroup, 'tasks'>, task: string, version: number): boolean {
  const range = own(group.tasks, task);
  return range !== undefined && version >= range.min && version <= range.max;
}
