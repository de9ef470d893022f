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
  play([run]);
  return resultOf(run);
}

/**
 * Plays runs to their end, together in virtual time.
 * @param given `shared`: they have the same slots. A slot that becomes free goes to their ready work items in turn.
 */
export function play(runs: readonly Run[], { shared = false }: { readonly shared?: boolean } = {}): void {
  const { untilMs, onProgress } = (runs[0] as Run).settings;
  // runs that share nothing are stepped each by itself
  const groups = shared ? [runs] : runs.map((run) => [run]);
  const claim = shared ? claimInTurn() : ([run]: readonly Run[]) => claimAll(run as Run);
  let told = 0;
  for (;;) {
    const atMs = runs.reduce((soonest, run) => Math.min(soonest, nextMs(run)), Infinity);
    if (atMs === Infinity || atMs > untilMs) break;
    for (const group of groups) if (group.some((run) => nextMs(run) <= atMs)) step(group, atMs, claim);
    const done = sum(runs, ({ ended, plans }) => ended + plans);
    if (done - told >= progressEvery) {
      told = done;
      onProgress({
        ended: sum(runs, ({ ended }) => ended),
        plans: sum(runs, ({ plans }) => plans),
        waiting: sum(runs, ({ total }) => total.waiting),
        passedMs: atMs - Math.min(...runs.map(({ startMs }) => startMs)),
      });
    }
  }
  const endMs = untilMs < Infinity ? untilMs : Math.max(...runs.map(({ nowMs }) => nowMs));
  for (const run of runs) {
    if (untilMs < Infinity) passIdle(run, untilMs);
    run.nowMs = Math.max(run.nowMs, endMs);
  }
}

function sum(runs: readonly Run[], of: (run: Run) => number): number {
  return runs.reduce((total, run) => total + of(run), 0);
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
function step(runs: readonly Run[], atMs: number, claim: (runs: readonly Run[]) => unknown): void {
  let changed = false;
  for (const run of runs) {
    run.nowMs = atMs;
    passIdle(run, atMs);
    if (run.idleAtMs === atMs) run.planAtMs = atMs;
    if (happen(run)) changed = true;
  }
  if (changed) {
    claim(runs);
    for (const run of runs) {
      run.idlePlans = 0;
      run.idleAtMs = Infinity;
      run.planAtMs = Math.min(run.planAtMs, Math.max(atMs, run.plannedMs + run.settings.tickMs));
    }
  }
  for (const run of runs) {
    if (run.wakeAtMs <= atMs) run.planAtMs = atMs;
    if (run.planAtMs <= atMs) tick(run);
  }
}

/** Creates the function by which nodes claim work items of the runs in turn, one at a time. */
function claimInTurn(): (runs: readonly Run[]) => void {
  let turn = 0;
  return (runs) => {
    for (let idle = 0; idle < runs.length; turn = (turn + 1) % runs.length) {
      const claimed = claimAll(runs[turn] as Run, 1);
      idle = claimed > 0 ? 0 : idle + 1;
    }
  };
}

/** Runs the events of a run at its present time, but for plans. Returns whether there were any. */
function happen(run: Run): boolean {
  const { nowMs, ends, dues, expiries, releases } = run;
  let changed = false;
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
  return changed;
}
