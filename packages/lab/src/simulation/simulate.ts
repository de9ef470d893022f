import { arrive, end, expire, retry } from './happen.ts';
import { follow, open, startFlow } from './flows.ts';
import type { SimulateOptions } from './options.ts';
import { toSettings } from './options.ts';
import type { Simulation } from './result.ts';
import { resultOf } from './report.ts';
import { isFlowArrival } from '../workloads/flow-arrival.ts';
import type { Run } from './run.ts';
import { happensMs, startRun } from './run.ts';
import { claimAll, passIdle, tick } from './tick.ts';

/**
 * Plans in a row that do nothing, while nothing else happens, before the waiting jobs count as waiting for
 * ever.
 */
const idlePlansMax = 200;
/** Number of ended jobs and plans between two calls of `onProgress`. */
const progressEvery = 1_000;

/**
 * Runs a workload through a policy in virtual time, with the code that plans in production: snapshot, plan,
 * written. The same options give the same result. Data that a policy prepares from outside is not fetched:
 * give it as `prepared`. A policy that never returns is not stopped.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function simulate(options: SimulateOptions): Simulation {
  const run = startRun(toSettings(options));
  let told = 0;
  for (;;) {
    const atMs = nextMs(run);
    if (atMs === Infinity || atMs > run.settings.untilMs) break;
    run.nowMs = atMs;
    step(run);
    const { ended, plans, total, nowMs, startMs } = run;
    if (ended + plans - told >= progressEvery) {
      told = ended + plans;
      run.settings.onProgress({ ended, plans, waiting: total.waiting, passedMs: nowMs - startMs });
    }
  }
  if (run.settings.untilMs < Infinity) passIdle(run, run.settings.untilMs);
  if (run.settings.untilMs < Infinity) run.nowMs = Math.max(run.nowMs, run.settings.untilMs);
  return resultOf(run);
}

function nextMs(run: Run): number {
  const { planAtMs, wakeAtMs } = run;
  const happens = happensMs(run);
  if (happens === Infinity && run.idlePlans > idlePlansMax) return Infinity;
  return Math.min(happens, planAtMs, wakeAtMs);
}

/**
 * Runs all events of one moment. Ends of attempts come first, so that their slots are free. Plans come last.
 */
function step(run: Run): void {
  const { nowMs, ends, dues, expiries, releases } = run;
  let changed = false;
  passIdle(run, nowMs);
  if (run.idleAtMs === nowMs) run.planAtMs = nowMs;
  for (let top = ends.peek(); top !== undefined && top.atMs <= nowMs; top = ends.peek()) {
    ends.pop();
    end(run, top.what);
    changed = true;
  }
  for (let top = dues.peek(); top !== undefined && top.atMs <= nowMs; top = dues.peek()) {
    dues.pop();
    retry(run, top.what, top.atMs);
    changed = true;
  }
  for (let top = releases.peek(); top !== undefined && top.atMs <= nowMs; top = releases.peek()) {
    releases.pop();
    open(run, top.what);
    changed = true;
  }
  follow(run);
  while (run.next !== undefined && run.next.atMs <= nowMs) {
    if (isFlowArrival(run.next)) {
      startFlow(run, run.next);
      follow(run);
    } else {
      arrive(run, run.next);
    }
    const following = run.arrivals.next();
    run.next = following.done === true ? undefined : following.value;
    changed = true;
  }
  for (let top = expiries.peek(); top !== undefined && top.atMs <= nowMs; top = expiries.peek()) {
    expiries.pop();
    expire(run, top.what);
    changed = true;
  }
  if (changed) {
    claimAll(run);
    run.idlePlans = 0;
    run.idleAtMs = Infinity;
    run.planAtMs = Math.min(run.planAtMs, Math.max(nowMs, run.plannedMs + run.settings.tickMs));
  }
  if (run.wakeAtMs <= nowMs) run.planAtMs = nowMs;
  if (run.planAtMs <= nowMs) tick(run);
}
