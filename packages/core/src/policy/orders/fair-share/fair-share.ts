import { answerOf } from '../../answer.ts';
import type { Shape } from '../../../options/options.ts';
import {
  aFunction,
  aListOf,
  aNumber,
  anObject,
  either,
  oneOf,
  optional,
  orNull,
} from '../../../options/options.ts';
import { aName, checkPart } from '../../check-part.ts';
import { madeWith } from '../../made-with.ts';
import { ownPart } from '../../own-parts.ts';
import type { Heads, OpenOrder, Order } from '../../order.ts';
import type { InFlight, JobFacts, Lane, Settlement, Snapshot } from '../../snapshot.ts';
import { compareText, defaultPool, own, poolOf } from '../../snapshot.ts';
import type { FairShareState, Unsure } from './state.ts';
import { afterWrite, noState, restoreState, withCharges } from './state.ts';
import type { Estimates } from '../ranking/runtimes.ts';
import { estimates, inOrder, learn, nameIn } from '../ranking/runtimes.ts';
import type { OpenLevel, ShareRules } from './share.ts';
import type { ShareLevel } from './levels.ts';
import { burstGates, openLevel, pathName, shareName } from './levels.ts';
import { heard, noOver, used } from './over.ts';
import type { PoolTurns } from './pool-turns.ts';
import { takeTurns } from './pool-turns.ts';
import { pathOf } from './share.ts';
import type { ShareTree } from './tree.ts';
import { openTree } from './tree.ts';
import type { Decay, Shares } from './saved.ts';

/** Options of {@link fairShare}: the shares, their weights, and the cost of a job. */
export interface FairShareOptions {
  /** Default `fair_share`. */
  readonly name?: string;
  /**
   * Levels of shares, the widest first. Default: queues by their weight, and within each queue its keys with
   * equal weights.
   */
  readonly levels?: readonly ShareLevel[];
  /**
   * Amount that a job uses of its share. `jobs`: every job the same. `cost`: a number from 10^-9 to 10^15, the same each
   * time it is asked. `time`: the worker time that the job takes, in milliseconds. Default `jobs`.
   */
  readonly charge?: 'jobs' | 'time' | { readonly cost: (job: JobFacts) => number };
  /**
   * Half-life of a share's lead over the others, in milliseconds. Null: the lead does not decay and lasts
   * until the others have caught up. Default null.
   */
  readonly halfLifeMs?: number | null;
  /**
   * Cost that a returning share may use ahead of others, if it had less than its part for a while. All shares
   * that were ever seen are remembered then, up to 20,000 idle ones on a level. Default 0: idle time earns
   * nothing.
   */
  readonly idleCredit?: number;
}

/** Default levels: queues by the weight of queue_config, and their keys. */
const queuesAndKeys: readonly ShareLevel[] = [{ by: 'queue' }, { by: 'key' }];

const level: Shape<ShareLevel> = {
  name: optional(aName),
  by: either(oneOf('queue', 'key'), aFunction),
  weight: optional(aFunction),
  min: optional(aFunction),
  max: optional(aFunction),
};

const aLevel = anObject(level, { what: 'a level, such as { by: "key" }' });

const shape: Shape<FairShareOptions> = {
  name: optional(aName),
  levels: optional(aListOf(aLevel, 'a list of levels, such as [{ by: "key" }]')),
  charge: optional(
    either(oneOf('jobs', 'time'), anObject({ cost: aFunction }, { what: 'an object with a function cost' })),
  ),
  halfLifeMs: optional(orNull(aNumber({ above: 0 }))),
  idleCredit: optional(aNumber({ min: 0 })),
};

/**
 * Weighted fair sharing. Shares that have jobs waiting get service by their weights, however many jobs each
 * has, and whether or not others are idle. Levels nest: a queue's part is shared between its tenants, and so
 * on. Each pool is shared out on its own. Within a share of the last level, jobs go by their order of
 * enqueuing.
 *
 * The method is hierarchical start-time fair queueing (Goyal, Vin, Cheng 1996). Each share has a start tag.
 * The share with the smallest tag goes, and the cost of its job, divided by its weight, is added to the tag.
 * For two shares that both have jobs waiting throughout, the lead of one over the other, in cost by weight,
 * never exceeds the sum of their largest single costs by weight. A new or returning share starts at the
 * virtual time, which is the start tag served last: neither it nor the others wait for service that the
 * others got while it was idle.
 *
 * With `time`, jobs in flight are booked with the mean runtime of their task (in their share, once that is
 * known), or with the time since they were dispatched if that is longer. When the attempt ends, the measured
 * time is charged instead. A job that was never written, or was recalled, costs nothing. Attempts that end
 * unseen are not charged: a crash of Postgres loses the unlogged feed.
 *
 * @throws {PgQueueError} `configuration`
 */
export function fairShare(options: FairShareOptions = {}): Order<FairShareState> {
  return fairShareOver(options);
}

/**
 * Fair sharing that also counts what shares use in other installations: `prepare` tells them the use here, and fetches
 * the {@link Uses} there.
 * @throws {PgQueueError} `configuration`
 */
export function fairShareOver(options: FairShareOptions, prepare?: Order['prepare']): Order<FairShareState> {
  checkPart('order', 'fair_share', {
    options,
    shape,
    further: ({ levels }) => (levels?.length === 0 ? ['there must be a level'] : []),
  });
  const { name = 'fair_share', levels = queuesAndKeys, charge = 'jobs' } = options;
  const { halfLifeMs = null, idleCredit = 0 } = options;
  const unit = typeof charge === 'object' ? 'cost' : charge;
  const none = noState({ unit, levels: levels.length });
  const initial = prepare === undefined ? none : { ...none, over: noOver };
  const settings: Settings = {
    name,
    levels,
    charge,
    halfLifeMs,
    idleCredit,
    runtimeOf: createRuntimeOf(levels),
    slots: levels.every(({ by }) => typeof by !== 'function') ? new WeakMap() : null,
  };
  const order: Order<FairShareState> = madeWith(options, {
    name,
    initial,
    restore: (saved) => restoreState(saved, initial),
    open: (snapshot, state, heads) => openFairShare(settings, { snapshot, state, heads }),
    written: (state, written) => afterWrite(state, written, halfLifeMs),
    gates: burstGates(name, levels),
    needs: { settlements: charge === 'time' },
    soft: true,
    ...(prepare === undefined ? {} : { prepare }),
  });
  return levels === queuesAndKeys && unit !== 'cost' ? ownPart(order) : order;
}

interface Settings extends Required<FairShareOptions> {
  /** Returns the name under which the mean runtime of a job's task in its share is kept. */
  readonly runtimeOf: (job: JobFacts) => string;
  /** Results of the last plan, kept if all jobs of a lane belong to one share: see {@link Slots}. */
  readonly slots: ShareRules['slots'];
}

/** Fair share during one plan. */
interface FairShareRun {
  readonly settings: Settings;
  readonly snapshot: Snapshot;
  readonly before: FairShareState;
  readonly runtimes: FairShareState['runtimes'];
  /** Shares by pool, including the charges of the attempts that have ended. */
  readonly pools: FairShareState['pools'];
  readonly over: FairShareState['over'];
  readonly levels: readonly OpenLevel[];
  readonly known: Estimates;
  readonly decay: Decay;
}

interface Pool {
  readonly name: string;
  readonly tree: ShareTree;
  taken: number;
}

function openFairShare(
  settings: Settings,
  seen: { readonly snapshot: Snapshot; readonly state: FairShareState; readonly heads: Heads },
): OpenOrder<FairShareState> {
  const opened = settle(settings, seen.snapshot, seen.state);
  const full = new Set<string>();
  const unsure: Unsure[] = [];
  const poolFor = createPoolFor(seen.snapshot);
  let pools: Map<string, Pool> | undefined;
  let turns: PoolTurns | undefined;
  const openPools = (): Map<string, Pool> =>
    (pools ??= treesOf(opened, {
      lanes: byPool(seen.heads.lanes(), seen.snapshot, { poolFor, full }),
      heads: seen.heads,
    }));
  return {
    next: () => (turns ??= takeTurns([...openPools().values()], full)).next(),
    taken: (lane, job, member = false) => {
      const pool = openPools().get(poolFor(lane));
      if (pool === undefined) return;
      const cost = costOf(opened, job);
      const share = pool.tree.taken(lane, job, { cost, member });
      pool.taken += 1;
      if (settings.charge === 'time') return;
      const { names, amounts } = pathOf(share, cost);
      unsure.push({ id: job.id, pool: pool.name, path: names, amounts });
    },
    passed: (lane) => openPools().get(poolFor(lane))?.tree.passed(lane),
    full: (pool) => void full.add(pool),
    state: () => stateAfter(opened, { pools, unsure }),
  };
}

/** Makes the name of a job's mean runtime, and caches it: each plan asks for it for every job in flight. */
function createRuntimeOf(levels: readonly ShareLevel[]): (job: JobFacts) => string {
  const names = new WeakMap<JobFacts, string>();
  return (job) => {
    const known = names.get(job);
    if (known !== undefined) return known;
    const share = pathName(levels.map((level) => shareName(level, job)));
    const name = nameIn(share, job);
    names.set(job, name);
    return name;
  };
}

/**
 * Returns the pool of a lane. It caches the last queue's pool, since lanes of one queue mostly stand side by
 * side.
 */
function createPoolFor(snapshot: Snapshot): (lane: Lane) => string {
  let [queue, pool]: [string | undefined, string] = [undefined, ''];
  return (lane) => {
    if (lane.queue !== queue) [queue, pool] = [lane.queue, poolOf(snapshot, lane.queue)];
    return pool;
  };
}

function byPool(
  lanes: readonly Lane[],
  { queues }: Snapshot,
  { poolFor, full }: { readonly poolFor: (lane: Lane) => string; readonly full: ReadonlySet<string> },
): ReadonlyMap<string, readonly Lane[]> {
  const single = Object.values(queues).every(({ pool }) => pool === defaultPool);
  const grouped = single ? new Map([[defaultPool, lanes]]) : Map.groupBy(lanes, poolFor);
  for (const pool of full) grouped.delete(pool);
  return grouped;
}

/** Charges the attempts that ended since the last plan, and what other installations have used since. */
function settle(settings: Settings, snapshot: Snapshot, before: FairShareState): FairShareRun {
  const { name, levels, charge, halfLifeMs } = settings;
  const decay = { nowMs: snapshot.nowMs, halfLifeMs };
  const open = levels.map((level) => openLevel(level, snapshot));
  const settled = inOrder(snapshot.settled);
  const runtimes = charge === 'time' ? learn(before.runtimes, settled, settings.runtimeOf) : before.runtimes;
  const opened = { settings, snapshot, before, runtimes, levels: open, known: estimates(runtimes), decay };
  const charges = settled.flatMap((settlement) => {
    const cost = settledCost(charge, settlement);
    if (cost === 0) return [];
    const path = open.map((level) => level.of(settlement.job));
    const amounts = open.map((level, index) => cost / level.weight(path[index] ?? ''));
    return [{ pool: poolOf(snapshot, settlement.job.queue), path, amounts }];
  });
  if (before.over === undefined)
    return { ...opened, over: undefined, pools: withCharges(before.pools, charges, decay) };
  const others = heard(used(before.over, charges), own(snapshot.prepared, name), {
    decay,
    levels: levels.length,
  });
  const pools = withCharges(before.pools, [...charges, ...others.charges], decay);
  return { ...opened, over: others.over, pools };
}

/** Returns the cost that an ended attempt is charged. Below 0: it is given back. */
function settledCost(charge: Settings['charge'], { outcome, busyMs, job }: Settlement): number {
  if (charge === 'time') return outcome === 'recalled' ? 0 : busyMs;
  if (outcome !== 'recalled') return 0;
  return charge === 'jobs' ? -1 : -checkCost(charge.cost(job), job);
}

function costOf({ settings: { charge, runtimeOf }, known }: FairShareRun, job: JobFacts): number {
  if (charge === 'jobs') return 1;
  if (charge !== 'time') return checkCost(charge.cost(job), job);
  return Math.max(1, Math.ceil(known.of(job, runtimeOf(job))));
}

function checkCost(given: number, { id }: JobFacts): number {
  const cost = answerOf('cost', given);
  if (typeof cost === 'number' && cost >= 1e-9 && cost <= 1e15) return cost;
  throw new Error(`the cost of job ${id} is ${String(cost)}, where a number from 10^-9 to 10^15 is expected`);
}

/**
 * Returns the cost booked for a job in flight, in whole milliseconds, so that sums do not depend on the order
 * of the jobs.
 */
function bookedFor(opened: FairShareRun, item: InFlight): number {
  if (opened.settings.charge !== 'time') return 0;
  const sinceMs = item.state === 'running' ? opened.snapshot.nowMs - item.dispatchedMs : 0;
  return Math.max(costOf(opened, item), Math.ceil(sinceMs));
}

function treesOf(
  opened: FairShareRun,
  { lanes, heads }: { readonly lanes: ReadonlyMap<string, readonly Lane[]>; readonly heads: Heads },
): Map<string, Pool> {
  const { settings, snapshot, levels } = opened;
  const rules: ShareRules = {
    levels,
    charged: settings.charge === 'time' ? 'ended' : 'dispatched',
    quantum: opened.known.typical,
    idleCredit: settings.idleCredit,
    decay: opened.decay,
    headOf: heads.of,
    slots: settings.slots,
  };
  const counts = settings.charge === 'time' || levels.some(({ min }) => min !== undefined);
  const items = Map.groupBy(counts ? snapshot.inFlight : [], ({ pool }) => pool);
  return new Map(
    [...lanes].map(([name, own]): [string, Pool] => {
      const booked = (items.get(name) ?? []).map((item) => ({ item, cost: bookedFor(opened, item) }));
      const stored = Object.hasOwn(opened.pools, name) ? (opened.pools[name] ?? null) : null;
      return [name, { name, tree: openTree(rules, { lanes: own, items: booked, stored }), taken: 0 }];
    }),
  );
}

/** Returns the state after a plan. The same object is returned if nothing changed. */
function stateAfter(
  { before, runtimes, over, pools: settled }: FairShareRun,
  { pools, unsure }: { readonly pools: Map<string, Pool> | undefined; readonly unsure: readonly Unsure[] },
): FairShareState {
  const changed = new Map<string, Shares | null>(Object.entries(settled));
  for (const { name, tree } of pools?.values() ?? []) {
    const shares = tree.stored();
    if (shares !== null) changed.set(name, shares);
  }
  const names = [...changed.keys()];
  const same =
    runtimes === before.runtimes &&
    over === before.over &&
    unsure.length === 0 &&
    before.unsure.length === 0 &&
    names.length === Object.keys(before.pools).length &&
    names.every((name) => Object.hasOwn(before.pools, name) && before.pools[name] === changed.get(name));
  if (same) return before;
  const sorted = [...changed].toSorted(([a], [b]) => compareText(a, b));
  const pooled = Object.fromEntries(sorted);
  return { ...before, runtimes, pools: pooled, unsure, ...(over === undefined ? {} : { over }) };
}
