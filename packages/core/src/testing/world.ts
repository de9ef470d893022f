import fc from 'fast-check';
import type { Json } from '../job/job.ts';
import type { Coalesce } from '../policy/parts.ts';
import { policy } from '../policy/compose/compose.ts';
import type { Gate } from '../policy/gate.ts';
import type { Order } from '../policy/order.ts';
import { turns } from '../policy/orders/ranked.ts';
import type { Plan } from '../policy/plan.ts';
import { planProblems } from '../policy/planning/plan-problems.ts';
import type { Policy, SavedPart } from '../policy/policy.ts';
import type { PolicyState } from '../policy/plan.ts';
import type { AttemptEnd, Candidate, InFlight, Lane, Settlement, Snapshot } from '../policy/snapshot.ts';
import { compareInKey, defaultPool, laneName } from '../policy/snapshot.ts';
import { aJob, aPool, aSnapshot, lanesOf, nowMs } from './snapshots.ts';

/** A job that arrives, and the ends of its attempts. */
export interface Arrival {
  readonly queue: string;
  readonly key: string;
  readonly region: 'eu' | 'us' | null;
  readonly cost: number;
  /** Duration of each attempt. */
  readonly runMs: number;
  /** Ends of its attempts, in order. Further attempts end as `done`. */
  readonly ends: readonly AttemptEnd[];
  readonly task: 't' | 'u';
}

/** Events of one tick. */
export interface Luck {
  /** Time since the last tick. */
  readonly pauseMs: number;
  /** Time from the snapshot to the write. */
  readonly lagMs: number;
  /** Every n-th planned job is not written. 0: all are. */
  readonly refuses: number;
  /** Every n-th lane is shown as it was at the last tick. 0: none is. */
  readonly stale: number;
  /**
   * Fate of the plan. `written`; `dropped`: not written, and the leader goes on; `reply_lost`: written, and
   * another leader begins without knowing that; `died`: not written, and another leader begins.
   */
  readonly fate: 'written' | 'dropped' | 'reply_lost' | 'died';
  readonly arrivals: readonly Arrival[];
}

export interface WorldOptions {
  readonly gates: readonly Gate[];
  readonly order?: Order;
  readonly coalesce?: readonly Coalesce[];
  readonly queues?: Snapshot['queues'];
  readonly slots?: number;
  /** Jobs shown of a lane. Default 4. */
  readonly window?: number;
  readonly batchMax?: number;
}

/** A work item as the database has it. */
interface WorldItem {
  readonly item: InFlight;
  readonly life: Life;
  endMs: number;
}

/** A job, and the remaining ends of its attempts. */
interface Life {
  readonly arrival: Arrival;
  job: Candidate;
  ends: readonly AttemptEnd[];
}

/** Record of one tick. */
export interface Tick {
  readonly snapshot: Snapshot;
  /** State before the plan. */
  readonly state: PolicyState;
  readonly plan: Plan;
  readonly atMs: number;
  readonly written: readonly InFlight[];
  /** Work items after the write. */
  readonly inFlight: readonly InFlight[];
  /** Attempts that ended since the last tick. Attempts of a dropped tick come again. */
  readonly settled: readonly Settlement[];
}

interface World {
  readonly options: WorldOptions;
  readonly policy: Policy;
  readonly waiting: Map<string, Life>;
  readonly delayed: Map<string, { readonly life: Life; readonly dueMs: number }>;
  readonly items: Map<string, WorldItem>;
  state: PolicyState;
  saved: Readonly<Record<string, SavedPart>>;
  /** State whose parts are saved: a part that is still the same object is not saved again. */
  clean: PolicyState;
  shown: readonly Lane[];
  /** Ended attempts that no state includes yet. */
  unseen: readonly Settlement[];
  seq: number;
  nowMs: number;
}

/** Delay of a retry or a snooze, in milliseconds. */
export const backoffMs = 700;

/**
 * Plays a policy in virtual time, as a scheduler and a database would: with an exact view of work items,
 * writes that lag or fail, and changes of the leader.
 */
export function play(options: WorldOptions, story: readonly Luck[]): readonly Tick[] {
  const { gates, order = turns(), coalesce = [] } = options;
  const made = policy({ gates, order, coalesce });
  const world: World = {
    options,
    policy: made,
    waiting: new Map(),
    delayed: new Map(),
    items: new Map(),
    state: made.initial,
    saved: {},
    clean: made.initial,
    shown: [],
    unseen: [],
    seq: 0,
    nowMs,
  };
  return story.map((luck) => tick(world, luck));
}

function tick(world: World, luck: Luck): Tick {
  world.nowMs += luck.pauseMs;
  for (const arrival of luck.arrivals) arrive(world, arrival);
  const settled = [...world.unseen, ...endAttempts(world)];
  for (const [id, { life, dueMs }] of world.delayed) {
    if (dueMs > world.nowMs) continue;
    world.delayed.delete(id);
    world.waiting.set(id, life);
  }
  const snapshot = look(world, luck, settled);
  const { state } = world;
  const plan = world.policy.plan(snapshot, state);
  const problems = planProblems(snapshot, plan);
  if (problems.length > 0) throw new Error(problems.join('; '));
  world.nowMs += luck.lagMs;
  const isWritten = luck.fate === 'written' || luck.fate === 'reply_lost';
  const written = isWritten ? write(world, plan, luck) : [];
  goOn(world, plan, luck, written);
  world.unseen = luck.fate === 'dropped' ? settled : [];
  const inFlight = [...world.items.values()].map(({ item }) => item);
  return { snapshot, state, plan, atMs: world.nowMs, written, inFlight, settled };
}

function arrive(world: World, arrival: Arrival): void {
  const { queue, key, region, cost, ends, task } = arrival;
  world.seq += 1;
  const attributes = region === null ? { cost } : { region, cost };
  const job = aJob({ seq: world.seq, queue, key, task, createdMs: world.nowMs, attributes });
  world.waiting.set(job.id, { arrival, job, ends });
}

function endAttempts(world: World): readonly Settlement[] {
  const { items, delayed } = world;
  const due = [...items.values()].filter(({ endMs }) => endMs <= world.nowMs);
  return due
    .toSorted((a, b) => a.endMs - b.endMs || compareInKey(a.item, b.item))
    .map((ended): Settlement => {
      const { item, life, endMs } = ended;
      const [outcome = 'done', ...ends] = life.ends;
      life.ends = ends;
      if (outcome === 'crash') {
        // the item stays, and the next attempt begins at once
        ended.endMs = world.nowMs + life.arrival.runMs;
      } else {
        items.delete(item.id);
        if (outcome === 'retry') life.job = { ...life.job, tries: life.job.tries + 1 };
        if (outcome === 'retry' || outcome === 'snooze') {
          delayed.set(item.id, { life, dueMs: endMs + backoffMs });
        }
      }
      return { job: item, outcome, busyMs: life.arrival.runMs, endedMs: endMs };
    });
}

function look(world: World, luck: Luck, settled: readonly Settlement[]): Snapshot {
  const { options, waiting, delayed, items } = world;
  const jobs = [...waiting.values()].map(({ job }) => job);
  const retries = Map.groupBy(delayed.values(), ({ life }) => laneName(life.job));
  const now = lanesOf(jobs, options.window ?? 4).map((lane): Lane => {
    const due = (retries.get(laneName(lane)) ?? []).map(({ dueMs }) => dueMs);
    return { ...lane, retryDueMs: due.length === 0 ? null : Math.min(...due) };
  });
  const before = new Map(world.shown.map((lane) => [laneName(lane), lane]));
  const lanes = now.map((lane, index): Lane => {
    const old = luck.stale > 0 && index % luck.stale === 0 ? before.get(laneName(lane)) : undefined;
    return old === undefined ? lane : { ...old, fresh: false };
  });
  world.shown = now;
  return aSnapshot({
    nowMs: world.nowMs,
    lanes,
    inFlight: [...items.values()].map(({ item }) => item),
    settled,
    queues: options.queues ?? {},
    pools: { [defaultPool]: aPool(options.slots ?? 1_000) },
    batchMax: options.batchMax ?? 100,
  });
}

function write({ waiting, items, nowMs: atMs }: World, plan: Plan, { refuses }: Luck): readonly InFlight[] {
  const written: InFlight[] = [];
  for (const [index, { id, pool, bundle }] of plan.dispatch.entries()) {
    const life = waiting.get(id);
    if (life === undefined || (refuses > 0 && index % refuses === refuses - 1)) continue;
    waiting.delete(id);
    const item: InFlight = {
      ...life.job,
      pool,
      state: index % 2 === 0 ? 'ready' : 'running',
      node: index % 2 === 0 ? null : 'n1',
      dispatchedMs: atMs,
      bundle: bundle ?? null,
    };
    items.set(id, { item, life, endMs: atMs + life.arrival.runMs });
    written.push(item);
  }
  return written;
}

/** Sets the state after a tick: that of the leader, or of the next one. */
function goOn(world: World, plan: Plan, { fate }: Luck, written: readonly InFlight[]): void {
  const { policy: made } = world;
  const ids = new Set(written.map(({ id }) => id));
  if (fate === 'written' || fate === 'reply_lost') {
    const soft = new Set(made.softParts);
    const parts = Object.entries(plan.state).map(([name, planned]): readonly [string, SavedPart] => {
      const was = world.saved[name];
      if (was !== undefined && world.clean[name] === planned) return [name, was];
      // soft parts are saved late: as of before this plan
      const text = JSON.stringify(soft.has(name) ? world.state[name] : planned);
      return [name, { state: JSON.parse(text) as Json, savedMs: world.nowMs }];
    });
    world.saved = Object.fromEntries(parts);
  }
  if (fate === 'written') world.state = made.written?.(plan.state, { atMs: world.nowMs, ids }) ?? plan.state;
  if (fate === 'reply_lost' || fate === 'died') world.state = made.restore?.(world.saved) ?? made.initial;
  if (fate !== 'dropped') world.clean = world.state;
}

const arrivals: fc.Arbitrary<Arrival> = fc.record({
  queue: fc.constantFrom('mail', 'video'),
  key: fc.constantFrom('a', 'b', ''),
  region: fc.constantFrom('eu', 'us', 'eu', null),
  cost: fc.integer({ min: 0, max: 4 }),
  runMs: fc.constantFrom(1, 20, 150, 1_000, 4_000),
  ends: fc.array(fc.constantFrom<AttemptEnd>('retry', 'retry', 'dead', 'snooze', 'crash', 'done'), {
    maxLength: 3,
  }),
  task: fc.constantFrom('t', 't', 'u'),
});

/**
 * Stories of 5 to 25 ticks: up to 6 arrivals a tick, writes that lag, refused jobs, and changes of the
 * leader. They last up to 25 s: multiply `pauseMs` for rules of hours or days.
 */
export const stories: fc.Arbitrary<readonly Luck[]> = fc.array(
  fc.record({
    pauseMs: fc.constantFrom(0, 1, 7, 50, 200, 1_000),
    lagMs: fc.constantFrom(0, 1, 5, 30, 120),
    refuses: fc.constantFrom(0, 0, 1, 2, 3),
    stale: fc.constantFrom(0, 0, 1, 2),
    fate: fc.constantFrom('written', 'written', 'written', 'written', 'dropped', 'reply_lost', 'died'),
    arrivals: fc.array(arrivals, { maxLength: 6 }),
  }),
  { minLength: 5, maxLength: 25, size: 'max' },
);
