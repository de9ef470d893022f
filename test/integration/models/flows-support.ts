// A model of flows: what each step and job is, from the rules of the design. It counts nothing and keeps no tallies.
import type { Outcome, Step } from '../../proofs/flows/graph.ts';
import { decide, dependentsOf, hasFailed, outcomeOf } from '../../proofs/flows/graph.ts';

export interface ModelJob {
  readonly id: string;
  /** `later`: its step has not opened. */
  state: 'later' | 'waiting' | 'running' | 'done' | 'dead' | 'cancelled';
  token: string | undefined;
  /** Its cancellation was asked for while it ran. */
  told: boolean;
}

export interface ModelStep extends Step {
  readonly name: string;
  readonly stopAfter: number | null;
  readonly jobs: ModelJob[];
  state: 'blocked' | 'open' | 'ended';
  outcome: Outcome | undefined;
  stop: boolean;
  /** Timers: their time has come. */
  due: boolean;
  /** Signals: they have a value. */
  valued: boolean;
}

export interface ModelFlow {
  readonly id: string;
  readonly steps: readonly ModelStep[];
  state: 'open' | 'done' | 'failed' | 'cancelled';
  stopping: boolean;
}

export interface Model {
  readonly flows: ModelFlow[];
}

export const outcomesOf = ({ steps }: ModelFlow): readonly (Outcome | undefined)[] =>
  steps.map(({ outcome }) => outcome);

const inQueue = ({ state }: ModelJob): boolean => state === 'waiting' || state === 'running';
const count = ({ jobs }: ModelStep, state: ModelJob['state']): number =>
  jobs.filter((job) => job.state === state).length;

export function countsOf(step: ModelStep): Readonly<Record<'added' | 'done' | 'failed' | 'other', number>> {
  return {
    added: step.jobs.length,
    done: count(step, 'done'),
    failed: count(step, 'dead'),
    other: count(step, 'cancelled'),
  };
}

function end(step: ModelStep, outcome: Outcome): void {
  [step.state, step.outcome] = ['ended', outcome];
}

/** A step ends without anybody's word: its jobs have ended, its time or its signal has come. */
function isOver(step: ModelStep): boolean {
  if (step.state !== 'open') return false;
  if (step.kind !== 'jobs') return step.kind === 'timer' ? step.due : step.valued;
  return !step.jobs.some((job) => inQueue(job) || (job.state === 'later' && !step.stop));
}

function outcomeNow(step: ModelStep): Outcome {
  if (step.kind !== 'jobs') return 'done';
  const ends = step.jobs.flatMap(({ state }) =>
    state === 'done' || state === 'dead' || state === 'cancelled' ? [state] : [],
  );
  return outcomeOf(ends, step.stop);
}

/** Opens or skips blocked steps. Needs stand before the steps that have them, so once over all is enough. */
function judge(flow: ModelFlow, steps: readonly ModelStep[] = flow.steps): void {
  for (const step of steps) {
    if (step.state !== 'blocked') continue;
    const decision = decide(step, outcomesOf(flow));
    if (decision === 'opens') step.state = 'open';
    else if (decision === 'skips') end(step, 'skipped');
  }
}

/** Ends signals and timers that no blocked step waits for; true if there were some. */
function skipSuperfluous({ steps }: ModelFlow): boolean {
  const idle = steps.filter((step, index) => {
    if (step.state === 'ended' || step.kind === 'jobs') return false;
    const dependents = dependentsOf(steps, index);
    return dependents.length > 0 && dependents.every((one) => steps[one.step]?.state !== 'blocked');
  });
  for (const step of idle) end(step, 'skipped');
  return idle.length > 0;
}

/** The leader takes all that has ended to its consequences. */
export function advance(flow: ModelFlow): void {
  if (flow.state !== 'open') return;
  for (const step of flow.steps) {
    if (step.state === 'open' && step.stopAfter !== null && count(step, 'dead') >= step.stopAfter)
      step.stop = true;
  }
  for (;;) {
    while (skipSuperfluous(flow));
    const over = flow.steps.filter(isOver);
    if (over.length === 0) break;
    for (const step of over) end(step, outcomeNow(step));
    judge(flow);
  }
  for (const step of flow.steps) {
    if (step.state !== 'open' || step.stop) continue;
    for (const job of step.jobs) if (job.state === 'later') job.state = 'waiting';
  }
  if (flow.steps.some(({ state }) => state !== 'ended')) return;
  flow.state = flow.stopping ? 'cancelled' : hasFailed(flow.steps, outcomesOf(flow)) ? 'failed' : 'done';
}

/** Cancels a flow; false: it has ended, or is being cancelled. */
export function stop(flow: ModelFlow): boolean {
  if (flow.state !== 'open' || flow.stopping) return false;
  flow.stopping = true;
  for (const step of flow.steps) {
    if (step.state === 'blocked') end(step, 'skipped');
    else if (step.state === 'open' && step.kind !== 'jobs') end(step, 'cancelled');
    else if (step.state === 'open') step.stop = true;
  }
  return true;
}

/** Cancels jobs of steps that are to be stopped; their number. */
export function stopJobs({ flows }: Model): number {
  const jobs = flows
    .flatMap(({ steps }) => steps)
    .filter(({ state, stop }) => state === 'open' && stop)
    .flatMap((step) => step.jobs)
    .filter((job) => inQueue(job) && !job.told);
  for (const job of jobs) cancel(job);
  return jobs.length;
}

export function cancel(job: ModelJob): void {
  if (job.state === 'running') job.told = true;
  else job.state = 'cancelled';
}

/** Closure of `from` under `next`. */
function reach(from: readonly number[], next: (step: number) => readonly number[]): ReadonlySet<number> {
  const reached = new Set(from);
  for (const step of reached) for (const one of next(step)) reached.add(one);
  return reached;
}

/** Runs what failed again; how many jobs are back. Undefined: nothing has failed. */
export function retry(flow: ModelFlow, from: number | null): number | undefined {
  const { steps } = flow;
  const at = (index: number): ModelStep => steps[index] as ModelStep;
  const behindOf = (step: number): readonly number[] => dependentsOf(steps, step).map((one) => one.step);
  const isSkipped = (index: number): boolean => at(index).outcome === 'skipped';
  const all = [...steps.keys()];
  const reached = from === null ? new Set(all) : reach([from], behindOf);
  const failed = all.filter((index) => {
    const { outcome, state } = at(index);
    const hasDead = state === 'open' && count(at(index), 'dead') > 0;
    return reached.has(index) && (outcome === 'failed' || outcome === 'cancelled' || hasDead);
  });
  const skipped =
    flow.state === 'cancelled'
      ? all.filter((index) => reached.has(index) && isSkipped(index))
      : [...reach(failed.flatMap(behindOf), (step) => (isSkipped(step) ? behindOf(step) : []))].filter(
          isSkipped,
        );
  if (failed.length + (flow.state === 'cancelled' ? skipped.length : 0) === 0) return undefined;
  // signals and timers that nobody waited for any more
  const again = reach(skipped, (step) =>
    at(step).needs.flatMap(([needed]) => (isSkipped(needed) && at(needed).kind !== 'jobs' ? [needed] : [])),
  );
  const back = failed.flatMap((index) =>
    at(index).jobs.filter(({ state }) => state === 'dead' || state === 'cancelled'),
  );
  for (const job of back) [job.state, job.told] = ['waiting', false];
  for (const index of failed)
    Object.assign(at(index), { state: 'open', outcome: undefined, stop: false, due: false });
  for (const index of again)
    Object.assign(at(index), { state: 'blocked', outcome: undefined, stop: false, due: false });
  [flow.state, flow.stopping] = ['open', false];
  judge(flow, all.filter((index) => again.has(index)).map(at));
  return back.length;
}
