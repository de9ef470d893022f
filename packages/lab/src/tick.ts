import type { InFlight, Plan, Prepared, Snapshot } from '@pgqueue/core';
import { compete, shareOut } from './fairness.ts';
import type { Part } from './fairness.ts';
import type { SimItem } from './fleet.ts';
import { comeBack, feed, land, start } from './happen.ts';
import type { SimLane } from './lanes.ts';
import { depthMax } from './lanes.ts';
import type { Flying, Run } from './run.ts';
import { change, laneOf, noteHeld } from './run.ts';

/** Jobs that a tick looks at when it expects to have little room, as the scheduler does. */
const wantMin = 64;
/** Jobs of each lane that a policy sees at least. */
const depthMin = 4;
/** Ended attempts that wait for a plan to be written: as many, or so long, and one is written without a job. */
const unsavedMax = 100;
const unsavedMs = 1_000;
/** Plans in a row that only recall; then the next one waits for its time. */
const recallsMax = 100;
/** How often the scheduler looks although nothing has changed; ever less often, up to once an hour, while nothing else goes on. */
const pollMs = 2_000;
const pollMaxMs = 3_600_000;

/** One tick: a snapshot, a plan, and what becomes of it. */
export function tick(run: Run): void {
  const { nowMs, settings, planning } = run;
  const room = run.fleet.room();
  [run.planAtMs, run.wakeAtMs] = [Infinity, Infinity];
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
  if (deeper || dispatched > 0) run.planAtMs = nowMs + settings.tickMs;
  if (run.lanes.active() > 0) {
    const soonestMs = nowMs + Math.max(1, settings.tickMs);
    const pollsMs = Math.min(pollMaxMs, pollMs * 2 ** Math.min(20, run.idlePlans));
    run.wakeAtMs = Math.max(soonestMs, Math.min(plan.nextMs ?? Infinity, nowMs + pollsMs));
  }
}

/** Whether a plan could do anything. */
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
    inFlight: inFlight(run),
    settled: run.settled,
    queues: settings.queues,
    pools: run.fleet.seen(nowMs - run.plannedMs),
    health: settings.health,
    prepared: prepared(run),
    batchMax: settings.batchMax,
  };
}

function inFlight({ flying }: Run): readonly InFlight[] {
  const items: InFlight[] = [];
  for (const one of flying) {
    const seen = (one.seen ??= seeItem(one.item));
    items.push(seen);
    for (const { facts } of one.item.members) items.push({ ...seen, ...facts });
  }
  return items;
}

function seeItem({ job, pool, node, dispatchedMs, bundle }: SimItem): InFlight {
  const { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries } = job.facts;
  const facts = { id, queue, key, task, version, priority, seq, createdMs, expiresMs, attributes, tries };
  const state = node === null ? 'ready' : 'running';
  return { ...facts, pool, state, node: node?.name ?? null, dispatchedMs, bundle };
}

function prepared({ settings, nowMs }: Run): Readonly<Record<string, Prepared>> {
  const given = Object.entries(settings.prepared);
  return given.length === 0
    ? {}
    : Object.fromEntries(given.map(([name, value]) => [name, { value, atMs: nowMs }]));
}

/** Takes a work item back that no node has taken yet. */
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

/** Reasons that say nothing against a job itself. */
const outside: ReadonlySet<string> = new Set(['no_free_slot', 'batch_full', 'out_of_time']);

/**
 * Takes in why jobs are held: such lanes do not compete; and those whose every visible job is held, or of which a bundle needs more,
 * are seen deeper from now on. Returns whether there are any of the latter.
 */
function noteReasons(run: Run, { deepen, reasons, laneReasons }: Plan): boolean {
  const { lanes, jobs } = run;
  let deeper = false;
  const see = (lane: SimLane, count: number): void => {
    if (lane.depth >= Math.min(depthMax, count)) return;
    lane.depth = Math.min(depthMax, count);
    lane.seen = null;
    deeper = true;
  };
  for (const [name, count] of deepen ?? []) {
    const lane = lanes.find(name);
    if (lane !== undefined) see(lane, count);
  }
  const held = new Map<SimLane, number>();
  for (const [name, reason] of laneReasons ?? []) {
    const lane = outside.has(reason) ? undefined : lanes.find(name);
    if (lane !== undefined) held.set(lane, 0);
  }
  for (const [id, reason] of reasons ?? []) {
    const facts = outside.has(reason) ? undefined : jobs.get(id)?.facts;
    if (facts === undefined) continue;
    const lane = laneOf(run, facts);
    held.set(lane, (held.get(lane) ?? 0) + 1);
  }
  for (const [lane, count] of held) {
    const { seen } = lane;
    if (seen?.more === true && count >= seen.jobs.length) see(lane, count * 2);
  }
  setHeld(run, held);
  return deeper;
}

/** Who was left waiting by this plan competes; who has nothing waiting any more does not, from the next one on. */
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

function setHeld(run: Run, held: ReadonlyMap<SimLane, number>): void {
  const { nowMs, fairness } = run;
  for (const lane of run.heldLanes) {
    if (held.has(lane)) continue;
    lane.held = false;
    compete(fairness, lane.part, lane.gauge.waiting > 0, nowMs);
  }
  for (const lane of held.keys()) {
    lane.held = true;
    compete(fairness, lane.part, false, nowMs);
  }
  run.heldLanes = held.size === 0 ? none : [...held.keys()];
}

const none: readonly SimLane[] = [];

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
  let first: SimItem | undefined;
  for (const { id, pool, bundle = null } of plan.dispatch) {
    const job = run.jobs.get(id);
    if (job?.waits !== true) continue;
    ids.add(id);
    const lane = laneOf(run, job.facts);
    run.lanes.remove(lane, job);
    const joins = bundle !== null && bundle !== id && first?.job.facts.id === bundle;
    change(run, lane, { waiting: -1, inFlight: joins ? 0 : 1, dispatched: 1 });
    lane.depth = 0;
    if (joins) {
      first?.members.push(job);
      continue;
    }
    given.push({ part: lane.part, workMs: job.durationMs });
    const item: SimItem = { job, pool, bundle, members: [], dispatchedMs: nowMs, node: null, ready: true };
    first = item;
    fly(run, item);
  }
  share(run, given);
  planning.written({ atMs: nowMs, ids });
  run.writtenMs = nowMs;
  run.settled = [];
}

function fly(run: Run, item: SimItem): void {
  const { job, dispatchedMs } = item;
  const lane = laneOf(run, job.facts);
  const flying: Flying = { item, lane, seen: null, startedMs: dispatchedMs, at: run.flying.length };
  run.flying.push(flying);
  run.items.set(job.facts.id, flying);
  run.fleet.add(item);
}

/** Nodes take what is ready. */
export function claimAll(run: Run): void {
  for (const pool of run.fleet.pools.values()) {
    if (pool.readyCount === 0 || pool.free === 0) continue;
    run.fleet.claim(pool, (item) => {
      const flying = run.items.get(item.job.facts.id);
      if (flying !== undefined) start(run, flying);
    });
  }
}
