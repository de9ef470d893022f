import type { AttemptEnd, Candidate, Settlement } from '@pgqueue/core';
import { retryDelayMs } from '@pgqueue/core/internal';
import type { SimItem } from '../workloads/fleet.ts';
import type { SimLane } from './lanes.ts';
import type { SimJob } from '../line.ts';
import { chance } from '../workloads/random.ts';
import type { Flying } from './air.ts';
import type { Run } from './run.ts';
import { change, laneOf, later } from './run.ts';
import type { SimStep } from '../steps.ts';
import type { Arrival } from '../workloads/arrival.ts';

/** Events of jobs in a simulation, except plans. Each happens at Run.nowMs. */

/** Purposes of random draws. */
const forOutcome = 1;
const forJitter = 2;

/** Enqueues a job that belongs to no flow. */
export function arrive(run: Run, arrival: Arrival): void {
  run.draws += 1;
  enqueue(run, arrival, { draw: run.draws, step: null });
}

/** Enqueues a job. */
export function enqueue(
  run: Run,
  arrival: Arrival,
  { draw, step }: { readonly draw: number; readonly step: SimStep | null },
): void {
  const { settings, fleet, lanes } = run;
  run.seq += 1;
  const { id } = arrival;
  const facts: Candidate = {
    // a duplicate id would be one job to the policy
    id: id === undefined ? `job-${run.seq}` : run.jobs.has(id) ? `${id}#${run.seq}` : id,
    queue: arrival.queue ?? 'default',
    key: arrival.key ?? '',
    task: arrival.task ?? 'job',
    version: arrival.version ?? 1,
    priority: arrival.priority ?? 0,
    seq: run.seq,
    createdMs: arrival.atMs,
    expiresMs: arrival.expiresMs ?? null,
    attributes: arrival.attributes ?? noAttributes,
    tries: 0,
  };
  const own = Object.freeze(step === null ? facts : { ...facts, flow: step.flow.id });
  const { durationMs, deadlineMs = null, failures = 0 } = arrival;
  const job: SimJob = {
    facts: own,
    draw,
    step,
    durationMs,
    deadlineMs,
    failures,
    crashes: 0,
    attempts: 0,
    waits: false,
    kind: '',
  };
  fleet.know(own.task, own.version);
  run.jobs.set(own.id, job);
  const lane = laneOf(run, own);
  const { tally } = lane;
  tally.arrived += 1;
  if (deadlineMs !== null) tally.deadlines += 1;
  if (arrival.atMs < tally.firstMs) tally.firstMs = arrival.atMs;
  lanes.add(lane, job);
  change(run, lane, { waiting: 1 });
  if (own.expiresMs !== null && own.expiresMs < settings.untilMs)
    later(run, run.expiries, own.expiresMs, job);
}

const noAttributes: Candidate['attributes'] = Object.freeze({});

export function start(run: Run, flying: Flying): void {
  const { item, lane } = flying;
  const { nowMs, settings } = run;
  flying.startedMs = nowMs;
  run.air.change(flying);
  change(run, lane, { running: 1 });
  const { job, members } = item;
  begin(lane, job, nowMs);
  for (const member of members) begin(lane, member, nowMs);
  const lasts =
    members.length === 0
      ? job.durationMs
      : settings.bundleMs([job, ...members].map(({ durationMs }) => durationMs));
  later(run, run.ends, nowMs + lasts, flying);
}

function begin(lane: SimLane, job: SimJob, nowMs: number): void {
  if (job.attempts === 0) lane.waits.push(nowMs - job.facts.createdMs);
  job.attempts += 1;
}

/** Ends the attempt at one job, or at the jobs of a bundle. */
export function end(run: Run, flying: Flying): void {
  const { item, lane, startedMs } = flying;
  const { nowMs } = run;
  run.fleet.release(item);
  land(run, flying);
  change(run, lane, { inFlight: -1, running: -1 });
  run.series.add(lane.row, { fromMs: startedMs, toMs: nowMs }, 1);
  const busyMs = (nowMs - startedMs) / (1 + item.members.length);
  settle(run, { item, lane, job: item.job, busyMs });
  for (const job of item.members) settle(run, { item, lane, job, busyMs });
}

/** Removes a work item from those in flight. */
export function land(run: Run, flying: Flying): void {
  const { item } = flying;
  run.items.delete(item.job.facts.id);
  run.air.remove(flying);
}

function settle(
  run: Run,
  ended: { readonly item: SimItem; readonly lane: SimLane; readonly job: SimJob; readonly busyMs: number },
): void {
  const { lane, job, busyMs } = ended;
  const outcome = outcomeOf(run, job);
  feed(run, { job: job.facts, outcome, busyMs, endedMs: run.nowMs });
  const { tally } = lane;
  tally.lastMs = run.nowMs;
  if (outcome === 'retry') {
    tally.retries += 1;
    const { backoff } = run.settings.failures;
    const random = chance(run.settings.seed, job.draw, job.attempts, forJitter);
    job.facts = Object.freeze({ ...job.facts, tries: job.facts.tries + 1 });
    const dueMs = run.nowMs + retryDelayMs(backoff, job.facts.tries, random);
    lane.dues.push(dueMs);
    lane.seen = null;
    later(run, run.dues, dueMs, job);
  } else if (outcome === 'crash') {
    tally.crashes += 1;
    comeBack(run, job);
  } else {
    tally[outcome] += 1;
    finish(run, lane, job);
    leaveStep(run, job, outcome);
  }
}

function outcomeOf(run: Run, job: SimJob): 'done' | 'retry' | 'crash' | 'dead' {
  const { seed, failures } = run.settings;
  const { errorRate, crashRate, maxTries, maxCrashes } = failures;
  const drawn = errorRate + crashRate === 0 ? 1 : chance(seed, job.draw, job.attempts, forOutcome);
  if (drawn < crashRate) {
    job.crashes += 1;
    return job.crashes >= maxCrashes ? 'dead' : 'crash';
  }
  if (job.facts.tries >= job.failures && drawn >= crashRate + errorRate) return 'done';
  return job.facts.tries + 1 >= maxTries ? 'dead' : 'retry';
}

function finish(run: Run, lane: SimLane, job: SimJob): void {
  run.jobs.delete(job.facts.id);
  run.ended += 1;
  const { deadlineMs } = job;
  if (deadlineMs === null || run.nowMs <= deadlineMs) return;
  lane.tally.missed += 1;
  lane.late.push(run.nowMs - deadlineMs);
}

/** Counts the end of a job in its step. */
function leaveStep(run: Run, { step }: SimJob, outcome: 'done' | 'dead'): void {
  if (step === null) return;
  step.jobs -= 1;
  if (outcome === 'dead') step.dead = true;
  if (step.jobs === 0) run.stepEnds.push([step, step.dead ? 'failed' : 'done']);
}

/** Keeps a settlement for policies that ask for them, `recalled` included. */
export function feed(run: Run, settlement: Settlement & { readonly outcome: AttemptEnd }): void {
  if (run.settings.policy.needs?.settlements === true) run.settled.push(settlement);
}

/** Makes a job wait again when its retry is due. */
export function retry(run: Run, job: SimJob, dueMs: number): void {
  const { dues } = laneOf(run, job.facts);
  dues.splice(dues.indexOf(dueMs), 1);
  comeBack(run, job);
}

/** Makes a job wait again. */
export function comeBack(run: Run, job: SimJob): void {
  const lane = laneOf(run, job.facts);
  run.lanes.add(lane, job);
  lane.seen = null;
  change(run, lane, { waiting: 1 });
}

/** Ends a job as expired if it still waits for its first start. Returns whether it did. */
export function expire(run: Run, job: SimJob): boolean {
  if (!job.waits || job.attempts > 0) return false;
  const lane = laneOf(run, job.facts);
  run.lanes.remove(lane, job);
  change(run, lane, { waiting: -1 });
  lane.tally.expired += 1;
  finish(run, lane, job);
  if (job.deadlineMs !== null && run.nowMs <= job.deadlineMs) lane.tally.missed += 1;
  return true;
}
