import type { Plan, Prepared, Snapshot } from '@pgqueue/core';
import { noneClosed } from '@pgqueue/core/internal';
import { compete, shareOut } from './fairness.ts';
import type { Part } from './fairness.ts';
import type { SimItem } from '../workloads/fleet.ts';
import { comeBack, feed, land, start } from './happen.ts';
import type { SimLane } from './lanes.ts';
import { depthMax, depthMin } from './lanes.ts';
import type { Flying } from './air.ts';
import type { Run } from './run.ts';
import { change, happensMs, laneOf, noteHeld } from './run.ts';

/** Least number of jobs that a tick looks at when it expects to have little room, as in the scheduler. */
const wantMin = 64;
/**
 * Limits for ended attempts that wait for a plan to be written: after 100 of them, or 1,000 ms, a plan is
 * written even without a job.
 */
const unsavedMax = 100;
const unsavedMs = 1_000;
/** Plans in a row that may only recall. After that the next plan waits for the tick time. */
const recallsMax = 100;
/**
 * Time until the scheduler polls although nothing has changed, in milliseconds. It doubles up to one hour
 * while nothing else happens.
 */
const pollMs = 2_000;
const pollMaxMs = 3_600_000;

/** Runs one tick: takes a snapshot, plans, and applies the plan. */
export function tick(run: Run): void {
  const { nowMs, settings, planning } = run;
  const room = run.fleet.room();
  [run.planAtMs, run.wakeAtMs, run.idleAtMs] = [Infinity, Infinity, Infinity];
  if (!worthIt(run, room)) return;
  leave(run);
  const snapshot = look(run, room);
  [run.plannedMs, run.plans] = [nowMs, run.plans + 1];
  const plan = planning.plan(snapshot);
  noteHeld(run, plan.held);
  for (const [name, count] of Object.entries(plan.forecast ?? {})) {
    run.forecast.set(name, Math.max(count, run.forecast.get(name) ?? 0));
  }
  const recalled = (plan.recall ?? []).filter((id) => recall(run, id)).length;
  const deeper = noteReasons(run, plan);
  if (recalled > 0) {
    planning.dropped();
    run.recalls += 1;
    run.planAtMs = run.recalls < recallsMax ? nowMs : nowMs + Math.max(1, settings.tickMs);
    return;
  }
  run.recalls = 0;
  write(run, plan);
  claimAll(run);
  const dispatched = plan.dispatch.length;
  if (dispatched === 0) run.emptyPlans += 1;
  run.idlePlans = dispatched > 0 ? 0 : run.idlePlans + 1;
  if (deeper !== 'no' || dispatched > 0) run.planAtMs = nowMs + settings.tickMs;
  if (deeper === 'at once') run.planAtMs = nowMs;
  if (deeper === 'no' && nothingToDo(run, plan)) {
    run.idleAtMs = nowMs + pauseMs(run);
    run.planAtMs = Infinity;
    run.wakeAtMs = Math.max(nowMs + Math.max(1, settings.tickMs), plan.nextMs ?? Infinity);
  } else if (run.lanes.active() > 0) {
    const soonestMs = nowMs + Math.max(1, settings.tickMs);
    run.wakeAtMs = Math.max(soonestMs, Math.min(plan.nextMs ?? Infinity, nowMs + pauseMs(run)));
  }
}

/** Returns the time until the scheduler polls again although nothing has changed, in milliseconds. */
function pauseMs({ idlePlans, settings }: Run): number {
  const pollsMs = Math.min(pollMaxMs, pollMs * 2 ** Math.min(20, idlePlans));
  return Math.max(1, settings.tickMs, pollsMs);
}

/**
 * Counts the plans that would have found nothing before a time. The next plan comes as if they had been made.
 */
export function passIdle(run: Run, untilMs: number): void {
  while (run.idleAtMs < untilMs) {
    const atMs = run.idleAtMs;
    if (!worthIt(run, run.fleet.room())) {
      run.idleAtMs = Infinity;
      return;
    }
    run.fleet.seen(atMs - run.plannedMs);
    run.plannedMs = atMs;
    run.plans += 1;
    run.emptyPlans += 1;
    run.idlePlans += 1;
    for (const reasons of run.held.values()) {
      for (const gauge of reasons.values()) if (gauge.jobs > 0) gauge.plans += 1;
    }
    run.idleAtMs = atMs + pauseMs(run);
  }
}

/**
 * Reports whether another plan would be the same until something else happens: gates hold all waiting jobs,
 * and they say when that changes.
 */
function nothingToDo(run: Run, { held, dispatch, forecast }: Plan): boolean {
  const { policy } = run.settings;
  if (policy.tellsTime !== true || forecast !== undefined || dispatch.length > 0) return false;
  if (run.settled.length > 0 || happensMs(run) === Infinity) return false;
  return Object.values(held).every((reasons) => Object.keys(reasons).every((reason) => !passing.has(reason)));
}

/** Reports whether a plan could do anything. */
function worthIt({ lanes, fleet, settled }: Run, room: number): boolean {
  if (settled.length >= unsavedMax) return true;
  if (lanes.active() === 0) return false;
  if (room > 0) return true;
  // with all slots taken only a recall could change something
  for (const { readyCount } of fleet.pools.values()) if (readyCount > 0) return true;
  return false;
}

function look(run: Run, room: number): Snapshot {
  const { lanes, nowMs, settings } = run;
  const want = Math.min(settings.batchMax, Math.max(wantMin, Math.ceil(room * 1.2)));
  const depth = Math.max(depthMin, Math.ceil(want / Math.max(1, lanes.active())));
  return {
    nowMs,
    lanes: lanes.see(depth),
    inFlight: run.air.seen(),
    settled: run.settled,
    queues: settings.queues,
    pools: run.fleet.seen(nowMs - run.plannedMs),
    health: settings.health,
    prepared: prepared(run),
    batchMax: settings.batchMax,
  };
}

function prepared({ settings, nowMs }: Run): Readonly<Record<string, Prepared>> {
  const given = Object.entries(settings.prepared);
  return given.length === 0
    ? {}
    : Object.fromEntries(given.map(([name, value]) => [name, { value, atMs: nowMs }]));
}

/** Recalls a work item that no node has taken yet. Returns false if that is not possible. */
function recall(run: Run, id: string): boolean {
  const flying = run.items.get(id);
  if (flying?.item.ready !== true || flying.item.members.length > 0) return false;
  const { item, lane } = flying;
  run.fleet.recall(item);
  land(run, flying);
  change(run, lane, { inFlight: -1 });
  comeBack(run, item.job);
  run.recalled += 1;
  feed(run, { job: item.job.facts, outcome: 'recalled', busyMs: 0, endedMs: run.nowMs });
  return true;
}

/** Reasons that do not concern the job itself. */
const outside: ReadonlySet<string> = new Set(['no_free_slot', 'batch_full', 'out_of_time']);
/** Reasons that may differ in the next plan: those above, and waiting for more jobs of its kind. */
const passing: ReadonlySet<string> = new Set([...outside, 'coalescing']);

/**
 * Processes the reasons for which jobs are held.
 *
 * Lanes that a gate holds do not compete. A lane is shown deeper from now on if each of its visible jobs is
 * held for itself, or if a plan asked for more of its jobs. Returns whether there are such lanes: `at once`
 * if the plan broke off for them.
 */
function noteReasons(run: Run, plan: Plan): 'no' | 'later' | 'at once' {
  const { lanes, jobs, plans } = run;
  const { holds = { jobs: plan.reasons ?? none, lanes: plan.laneReasons ?? none, closed: noneClosed } } =
    plan;
  let deeper: 'no' | 'later' | 'at once' = 'no';
  const see = (lane: SimLane, count: number): boolean => {
    if (lane.depth >= Math.min(depthMax, count)) return false;
    lane.depth = Math.min(depthMax, count);
    lane.seen = null;
    if (deeper === 'no') deeper = 'later';
    return true;
  };
  for (const [name, count] of plan.deepen ?? none) {
    const lane = lanes.find(name);
    if (lane === undefined) continue;
    const kinds = lane.seen?.unseen !== undefined;
    if (see(lane, count) && kinds) deeper = 'at once';
  }
  const held: SimLane[] = [];
  const hold = (lane: SimLane): void => {
    if (lane.heldIn !== plans) held.push(lane);
    lane.heldIn = plans;
  };
  for (const { lane, counts } of holds.closed.all()) {
    let against = false;
    for (const reason of counts.keys()) against ||= !outside.has(reason);
    if (against) hold(lanes.of(lane.queue, lane.key));
  }
  for (const [name, reason] of holds.lanes) {
    const lane = outside.has(reason) ? undefined : lanes.find(name);
    if (lane !== undefined) hold(lane);
  }
  const counts = new Map<SimLane, number>();
  for (const [id, reason] of holds.jobs) {
    const facts = outside.has(reason) ? undefined : jobs.get(id)?.facts;
    if (facts === undefined) continue;
    const lane = laneOf(run, facts);
    hold(lane);
    counts.set(lane, (counts.get(lane) ?? 0) + 1);
  }
  for (const [lane, count] of counts) {
    const { seen } = lane;
    if (seen?.more === true && count >= seen.jobs.length) see(lane, count * 2);
  }
  setHeld(run, held);
  return deeper;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();

/**
 * Shares out the work of a plan. Lanes that this plan left waiting compete. Lanes without waiting jobs stop
 * competing with the next plan.
 */
function share(run: Run, given: Parameters<typeof shareOut>[1]): void {
  for (const { part, line, held } of run.lanes.begun()) {
    if (line.size() > 0 && !held) compete(run.fairness, part, true, run.nowMs);
  }
  shareOut(run.fairness, given);
  leave(run);
}

function leave({ lanes, fairness, nowMs }: Run): void {
  for (const { part } of lanes.emptied()) compete(fairness, part, false, nowMs);
}

function setHeld(run: Run, held: readonly SimLane[]): void {
  const { nowMs, fairness, plans } = run;
  for (const lane of run.heldLanes) {
    if (lane.heldIn === plans) continue;
    lane.held = false;
    compete(fairness, lane.part, lane.gauge.waiting > 0, nowMs);
  }
  for (const lane of held) {
    lane.held = true;
    compete(fairness, lane.part, false, nowMs);
  }
  run.heldLanes = held;
}

function write(run: Run, plan: Plan): void {
  const { nowMs, planning, settled } = run;
  const overdue = settled.length >= unsavedMax || (settled.length > 0 && nowMs - run.writtenMs > unsavedMs);
  if (plan.dispatch.length === 0 && !overdue) {
    share(run, []);
    planning.dropped();
    return;
  }
  const ids = new Set<string>();
  const given: { readonly part: Part; readonly workMs: number }[] = [];
  let first: Flying | undefined;
  for (const { id, pool, bundle = null } of plan.dispatch) {
    const job = run.jobs.get(id);
    if (job?.waits !== true) continue;
    ids.add(id);
    const lane = laneOf(run, job.facts);
    run.lanes.remove(lane, job);
    const joins = bundle !== null && bundle !== id && first?.item.job.facts.id === bundle;
    change(run, lane, { waiting: -1, inFlight: joins ? 0 : 1, dispatched: 1 });
    lane.depth = 0;
    if (joins && first !== undefined) {
      first.item.members.push(job);
      run.air.change(first);
      continue;
    }
    given.push({ part: lane.part, workMs: job.durationMs });
    const item: SimItem = { job, pool, bundle, members: [], dispatchedMs: nowMs, node: null, ready: true };
    first = fly(run, item);
  }
  share(run, given);
  planning.written({ atMs: nowMs, ids });
  run.writtenMs = nowMs;
  run.settled = [];
}

function fly(run: Run, item: SimItem): Flying {
  const { job } = item;
  const flying = run.air.add(item, laneOf(run, job.facts));
  run.items.set(job.facts.id, flying);
  run.fleet.add(item);
  return flying;
}

/** Lets the nodes claim ready work items: up to `max` of each pool. Returns how many they claimed. */
export function claimAll(run: Run, max: number = Infinity): number {
  let claimed = 0;
  for (const pool of run.fleet.pools.values()) {
    if (pool.readyCount === 0 || pool.slots.free === 0) continue;
    run.fleet.claim(
      pool,
      (item) => {
        const flying = run.items.get(item.job.facts.id);
        claimed += 1;
        if (flying !== undefined) start(run, flying);
      },
      max,
    );
  }
  return claimed;
}
