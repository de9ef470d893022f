import type { FlowArrival } from '../workloads/flow-arrival.ts';
import { jobsOf, needsOf } from '../workloads/flow-arrival.ts';
import type { FlowTally, SimFlow, SimStep, StepOutcome } from '../steps.ts';
import { enqueue } from './happen.ts';
import type { Run } from './run.ts';
import { later } from './run.ts';

/**
 * Flows in a simulation, by the rules of advance_flows: a step begins when what it waits for has ended, and has
 * ended when all its jobs have. Each happens at Run.nowMs.
 */

/** Starts a flow: releases the steps that wait for no other. */
export function startFlow(run: Run, given: FlowArrival): void {
  run.flowsStarted += 1;
  const { id = `flow-${run.flowsStarted}` } = given;
  const flow: SimFlow = {
    // flows of one id would be one flow to the policy
    id: run.openFlows.has(id) ? `${id}#${run.flowsStarted}` : id,
    given,
    tally: tallyOf(run, given.flow),
    left: given.steps.length,
    steps: [],
  };
  run.openFlows.add(flow.id);
  flow.tally.arrived += 1;
  flow.steps = stepsOf(run, flow);
  for (const step of flow.steps) if (step.needs === 0) release(run, step);
}

function tallyOf(run: Run, name: string): FlowTally {
  let tally = run.flows.get(name);
  if (tally === undefined) run.flows.set(name, (tally = { arrived: 0, done: 0, failed: 0, makespans: [] }));
  return tally;
}

/** Makes the steps. Reserves the draws of all their jobs, so that they do not depend on when a step begins. */
function stepsOf(run: Run, flow: SimFlow): readonly SimStep[] {
  const steps = new Map<string, SimStep>();
  for (const given of flow.given.steps) {
    const jobs = jobsOf(given);
    const counts = { needs: needsOf(given).length, jobs };
    const firstDraw = run.draws + 1;
    run.draws += jobs;
    steps.set(given.name, {
      flow,
      given,
      firstDraw,
      needed: [],
      dependents: [],
      state: 'blocked',
      outcome: undefined,
      dead: false,
      ...counts,
    });
  }
  for (const step of steps.values()) {
    for (const [name, condition] of needsOf(step.given)) {
      const needed = steps.get(name);
      if (needed === undefined) continue;
      needed.dependents.push({ step, condition });
      step.needed.push(needed);
    }
  }
  return [...steps.values()];
}

function release(run: Run, step: SimStep): void {
  step.state = 'open';
  const { delayMs = 0 } = step.given;
  if (delayMs > 0) later(run, run.releases, run.nowMs + delayMs, step);
  else open(run, step);
}

/** Enqueues the jobs of a step, unless it was skipped during its delay. */
export function open(run: Run, step: SimStep): void {
  if (step.state === 'ended') return;
  const { flow, given, firstDraw, jobs } = step;
  const { name: _, after: _after, count: _count, delayMs: _delayMs, durationMs = 0, ...facts } = given;
  const { queue, key } = flow.given;
  const common = {
    ...(queue === undefined ? {} : { queue }),
    ...(key === undefined ? {} : { key }),
    ...facts,
  };
  for (let at = 0; at < jobs; at += 1) {
    const lastsMs = typeof durationMs === 'number' ? durationMs : (durationMs[at] ?? 0);
    enqueue(run, { ...common, atMs: run.nowMs, durationMs: lastsMs }, { draw: firstDraw + at, step });
  }
  if (jobs === 0) run.stepEnds.push([step, 'done']);
}

/** Takes the steps that have ended to their consequences: dependents begin or are skipped, flows end. */
export function follow(run: Run): void {
  // grows while it is read
  for (const [step, outcome] of run.stepEnds) endStep(run, step, outcome);
  run.stepEnds.length = 0;
}

function endStep(run: Run, step: SimStep, outcome: StepOutcome): void {
  const { flow, dependents } = step;
  [step.state, step.outcome] = ['ended', outcome];
  flow.left -= 1;
  for (const { step: dependent, condition } of dependents) {
    dependent.needs -= 1;
    if (dependent.state !== 'blocked') continue;
    if (condition !== 'ended' && condition !== outcome) skip(run, dependent);
    else if (dependent.needs === 0) release(run, dependent);
  }
  if (flow.left > 0) return;
  run.openFlows.delete(flow.id);
  const failed = flow.steps.some(hasFailed);
  flow.tally[failed ? 'failed' : 'done'] += 1;
  if (!failed) flow.tally.makespans.push(run.nowMs - flow.given.atMs);
}

/** Skips a step, and steps without jobs for which no blocked step waits any more. */
function skip(run: Run, first: SimStep): void {
  first.state = 'ended';
  const skipped = [first];
  // grows while it is read: a chain may be long
  for (const step of skipped) {
    run.stepEnds.push([step, 'skipped']);
    for (const needed of step.needed) {
      const waits = needed.given.durationMs === undefined && needed.state !== 'ended';
      if (!waits || needed.dependents.some((behind) => behind.step.state === 'blocked')) continue;
      needed.state = 'ended';
      skipped.push(needed);
    }
  }
}

/** Reports whether a step failed, and not all steps behind it take that, or all those were skipped. */
function hasFailed({ outcome, dependents }: SimStep): boolean {
  return (
    outcome === 'failed' &&
    (dependents.some(({ condition }) => condition !== 'ended') ||
      dependents.every(({ step }) => step.outcome === 'skipped'))
  );
}
