import type { Candidate, Heap, HeldCounts, Settlement } from '@pgqueue/core';
import { createHeap, queueOf } from '@pgqueue/core';
import type { Air, Flying } from './air.ts';
import { createAir } from './air.ts';
import type { Fairness, QueuePart } from './fairness.ts';
import { createFairness } from './fairness.ts';
import type { Fleet } from '../workloads/fleet.ts';
import type { Slots } from '../workloads/fleet.ts';
import { createFleet, createSlots } from '../workloads/fleet.ts';
import type { Gauge } from './gauge.ts';
import { bring, createGauge } from './gauge.ts';
import type { SimLane, Lanes } from './lanes.ts';
import { createLanes } from './lanes.ts';
import type { SimJob } from '../line.ts';
import type { Settings } from './options.ts';
import type { Planning } from './planning.ts';
import { startPlanning } from './planning.ts';
import type { Series } from './series.ts';
import { createSeries } from './series.ts';
import type { FlowTally, SimStep, StepOutcome } from '../steps.ts';
import type { Arrival } from '../workloads/arrival.ts';
import type { FlowArrival } from '../workloads/flow-arrival.ts';
import { inOrder } from '../workloads/workload.ts';

/** An event at a time. Events at the same time happen in the order in which they were added. */
export interface Event<What> {
  readonly atMs: number;
  readonly n: number;
  readonly what: What;
}

/** Number of jobs that a reason holds, over time. */
export interface HeldGauge {
  jobs: number;
  max: number;
  area: number;
  plans: number;
}

/** Parts that the runs of several installations have in common, which are simulated together. */
export interface Joint {
  readonly startMs: number;
  readonly fairness: Fairness;
  /** Parts of the queues, by name. */
  readonly parts: Map<string, QueuePart>;
  /** Counts over all installations. */
  readonly overall: Gauge;
  /** Slots that all share; undefined: each has those of its own fleet. */
  readonly slots: ReadonlyMap<string, Slots> | undefined;
}

/** State of a simulation. */
export interface Run {
  readonly settings: Settings;
  readonly planning: Planning;
  readonly fleet: Fleet;
  readonly lanes: Lanes;
  readonly startMs: number;
  nowMs: number;
  readonly arrivals: Iterator<Arrival | FlowArrival>;
  next: Arrival | FlowArrival | undefined;
  /** Unfinished jobs by id. */
  readonly jobs: Map<string, SimJob>;
  /** Work items by the id of their first job. */
  readonly items: Map<string, Flying>;
  readonly air: Air;
  readonly ends: Heap<Event<Flying>>;
  readonly dues: Heap<Event<SimJob>>;
  readonly expiries: Heap<Event<SimJob>>;
  /** Steps whose delay has begun. */
  readonly releases: Heap<Event<SimStep>>;
  /** Steps that have ended, and whose dependents do not know yet. */
  readonly stepEnds: (readonly [step: SimStep, outcome: StepOutcome])[];
  /** Counts of flows by their name. */
  readonly flows: Map<string, FlowTally>;
  readonly openFlows: Set<string>;
  flowsStarted: number;
  settled: Settlement[];
  seq: number;
  /** Number of jobs of the workload so far, those that flows will enqueue later included. */
  draws: number;
  events: number;
  ended: number;
  /** Time of the next plan. Infinity: nothing has changed. */
  planAtMs: number;
  plannedMs: number;
  /** Time at which a gate said that a job may go by time alone, or at which the scheduler polls. */
  wakeAtMs: number;
  /**
   * Time of the next plan that would find nothing, as long as nothing else happens. Such a plan is counted,
   * not made. Infinity: there is none.
   */
  idleAtMs: number;
  writtenMs: number;
  plans: number;
  emptyPlans: number;
  recalled: number;
  /** Plans in a row that only recalled work items. */
  recalls: number;
  /** Plans in a row that dispatched nothing while nothing else happened. */
  idlePlans: number;
  readonly total: Gauge;
  /** The total over all installations that are simulated together; the same as `total` if there is one. */
  readonly overall: Gauge;
  readonly queues: Map<string, Gauge>;
  readonly fairness: Fairness;
  readonly series: Series;
  readonly held: Map<string, Map<string, HeldGauge>>;
  heldSinceMs: number;
  /** Lanes of which a gate held jobs in the last plan. */
  heldLanes: readonly SimLane[];
  readonly forecast: Map<string, number>;
}

export function startRun(settings: Settings, joint?: Joint): Run {
  const arrivals = inOrder(settings.workload);
  const first = arrivals.next();
  const next = first.done === true ? undefined : first.value;
  const startMs = joint?.startMs ?? next?.atMs ?? 0;
  const total = createGauge(startMs);
  const soonest = <What>(): Heap<Event<What>> => createHeap<Event<What>>([], before);
  return {
    settings,
    planning: startPlanning(settings.policy),
    fleet: createFleet(joint?.slots ?? createSlots(settings.fleet), settings.horizonMs),
    lanes: createLanes({
      startMs,
      weightOf: settings.weightOf,
      queueWeight: (queue) => queueOf(settings, queue).weight,
      kindOf: settings.policy.kindOf,
      parts: joint?.parts ?? new Map<string, QueuePart>(),
    }),
    startMs,
    nowMs: startMs,
    arrivals,
    next,
    jobs: new Map(),
    items: new Map(),
    air: createAir(),
    ends: soonest<Flying>(),
    dues: soonest<SimJob>(),
    expiries: soonest<SimJob>(),
    releases: soonest<SimStep>(),
    stepEnds: [],
    flows: new Map(),
    openFlows: new Set(),
    flowsStarted: 0,
    settled: [],
    seq: 0,
    draws: 0,
    events: 0,
    ended: 0,
    planAtMs: Infinity,
    plannedMs: -Infinity,
    wakeAtMs: Infinity,
    idleAtMs: Infinity,
    writtenMs: startMs,
    plans: 0,
    emptyPlans: 0,
    recalled: 0,
    recalls: 0,
    idlePlans: 0,
    total,
    overall: joint?.overall ?? total,
    queues: new Map(),
    fairness: joint?.fairness ?? createFairness(startMs),
    series: createSeries(startMs),
    held: new Map(),
    heldSinceMs: startMs,
    heldLanes: [],
    forecast: new Map(),
  };
}

function before(a: Event<unknown>, b: Event<unknown>): boolean {
  return a.atMs !== b.atMs ? a.atMs < b.atMs : a.n < b.n;
}

/** Returns the time of the next event. Plans do not count. */
export function happensMs({ ends, dues, expiries, releases, next }: Run): number {
  while (releases.peek()?.what.state === 'ended') releases.pop();
  return Math.min(
    next?.atMs ?? Infinity,
    ends.peek()?.atMs ?? Infinity,
    dues.peek()?.atMs ?? Infinity,
    expiries.peek()?.atMs ?? Infinity,
    releases.peek()?.atMs ?? Infinity,
  );
}

export function later<What>(run: Run, heap: Heap<Event<What>>, atMs: number, what: What): void {
  run.events += 1;
  heap.push({ atMs, n: run.events, what });
}

export function laneOf(run: Run, { queue, key }: Candidate): SimLane {
  return run.lanes.of(queue, key);
}

/** Changes of a lane's counts, which apply to its queue and to the total, too. */
export interface Change {
  readonly waiting?: number;
  readonly inFlight?: number;
  readonly running?: number;
  readonly dispatched?: number;
}

export function change(run: Run, lane: SimLane, by: Change): void {
  const { nowMs, total } = run;
  if (nowMs > total.sinceMs) {
    const span = { fromMs: total.sinceMs, toMs: nowMs };
    run.series.add(0, span, total.running);
    run.series.add(1, span, total.waiting);
  }
  let queue = run.queues.get(lane.queue);
  if (queue === undefined) run.queues.set(lane.queue, (queue = createGauge(nowMs)));
  move(total, nowMs, by);
  if (run.overall !== total) move(run.overall, nowMs, by);
  move(queue, nowMs, by);
  move(lane.gauge, nowMs, by);
}

function move(gauge: Gauge, nowMs: number, by: Change): void {
  const { waiting = 0, inFlight = 0, running = 0, dispatched = 0 } = by;
  bring(gauge, nowMs);
  gauge.dispatched += dispatched;
  if (gauge.waiting > 0) gauge.dispatchedBacklogged += dispatched;
  gauge.waiting += waiting;
  gauge.inFlight += inFlight;
  gauge.running += running;
  if (gauge.waiting > gauge.waitingMax) gauge.waitingMax = gauge.waiting;
  if (gauge.inFlight > gauge.inFlightMax) gauge.inFlightMax = gauge.inFlight;
}

/** Records the jobs that a plan held, from now until the next plan. */
export function noteHeld(run: Run, counts: HeldCounts): void {
  const ms = run.nowMs - run.heldSinceMs;
  run.heldSinceMs = run.nowMs;
  for (const reasons of run.held.values()) {
    for (const gauge of reasons.values()) {
      gauge.area += gauge.jobs * ms;
      gauge.jobs = 0;
    }
  }
  for (const queue of Object.keys(counts)) {
    const reasons = run.held.get(queue) ?? new Map<string, HeldGauge>();
    run.held.set(queue, reasons);
    for (const [reason, jobs] of Object.entries(counts[queue] ?? {})) {
      const gauge = reasons.get(reason) ?? { jobs: 0, max: 0, area: 0, plans: 0 };
      gauge.jobs = jobs;
      gauge.max = Math.max(gauge.max, jobs);
      gauge.plans += 1;
      reasons.set(reason, gauge);
    }
  }
}
