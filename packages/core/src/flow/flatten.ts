import type { NewJob } from '../job/job.ts';
import { isNeededTask } from '../job/needs.ts';
import { aSchema } from '../job/task-definition.ts';
import { isNewJob } from '../job/validate.ts';
import { parseDuration } from '../options/duration.ts';
import { aText, say, valueProblems } from '../options/options.ts';
import { flowLimits } from './limits.ts';
import type { ProblemList } from './problems.ts';
import type { FlowStep, NeedCondition, AnyFlow } from './step.ts';

/** One step of a flow whose nested flows are inlined. Steps are named by their full names. */
export interface FlatStep {
  readonly name: string;
  readonly kind: 'jobs' | 'signal' | 'timer';
  readonly jobs: readonly NewJob[];
  /** Tasks of its jobs. */
  readonly tasks: ReadonlySet<string>;
  readonly delayMs: number | null;
  readonly wants: 'all' | 'any';
  readonly stopAfter: number | null;
  readonly needs: ReadonlyMap<string, NeedCondition>;
  /** Steps that its tasks read, each with the task that it must have; null: it must be a signal. */
  readonly reads: readonly (readonly [step: string, task: string | null])[];
}

/** Surroundings of a nested flow: the step that it stands for. */
interface Around {
  readonly prefix: string;
  readonly needs: ReadonlyMap<string, NeedCondition>;
  readonly wants: 'all' | 'any';
}

/** Contents of a step, recognized. */
type Contents =
  | { readonly kind: 'jobs'; readonly jobs: readonly NewJob[] }
  | { readonly kind: 'signal' }
  | { readonly kind: 'timer'; readonly delayMs: number }
  | { readonly kind: 'flow'; readonly flow: AnyFlow };

/**
 * Returns the steps of a flow, with those of nested flows in their places. Adds the problems of steps by
 * themselves, and leaves out steps that are none. Visits one step more than a flow may have at most: a flow
 * that was put into itself again and again takes no longer than any other.
 */
export function flatten(flow: AnyFlow, problems: ProblemList): readonly FlatStep[] {
  const flat: FlatStep[] = [];
  let visited = 0;
  const enter = (nested: AnyFlow, around: Around): void => {
    const { steps } = nested;
    if (steps.length === 0)
      problems.add(
        around.prefix === '' ? 'it has no steps' : `${labelOf(around.prefix.slice(0, -1))} has no steps`,
      );
    for (const step of steps) {
      visited += 1;
      if (visited > flowLimits.stepsMax) return;
      const name = fullName(step, around.prefix, visited - 1, problems);
      const contents = name === undefined ? undefined : contentsOf(step, labelOf(name), problems);
      if (name === undefined || contents === undefined) continue;
      const { needs, reads } = needsOf(step, contents, around.prefix);
      const from =
        needs.size === 0 ? { needs: around.needs, wants: around.wants } : { needs, wants: step.wants };
      if (contents.kind === 'flow') {
        enter(contents.flow, { ...from, prefix: `${name}.` });
      } else {
        const { kind } = contents;
        const jobs = kind === 'jobs' ? contents.jobs : [];
        const delayMs = kind === 'timer' ? contents.delayMs : null;
        const tasks = new Set(jobs.map(({ task }) => task));
        flat.push({ ...from, name, kind, jobs, tasks, delayMs, stopAfter: step.stopAfter, reads });
      }
    }
  };
  enter(flow, { prefix: '', needs: new Map(), wants: 'all' });
  if (visited > flowLimits.stepsMax) problems.add(`it has more than ${flowLimits.stepsMax} steps`);
  return flat;
}

/** Names a step in a problem. */
export function labelOf(name: string): string {
  return `step ${JSON.stringify(name)}`;
}

const aName = aText({ max: flowLimits.nameLengthMax });

function fullName(
  { name }: FlowStep,
  prefix: string,
  index: number,
  problems: ProblemList,
): string | undefined {
  const found = [...valueProblems(aName, name, 'its name')];
  // clients make objects of steps by name
  if (name === '__proto__') found.push('its name must not be __proto__');
  if (found.length === 0) found.push(...valueProblems(aName, prefix + name, 'its name with those around it'));
  for (const problem of found) problems.add(`the step at ${index}: ${problem}`);
  return found.length === 0 ? prefix + name : undefined;
}

function contentsOf(step: FlowStep, label: string, problems: ProblemList): Contents | undefined {
  const contents = recognized(step.work, (problem) => problems.add(`${label}: ${problem}`));
  const found = [...step.problems];
  if (contents !== undefined && contents.kind !== 'jobs' && step.stopAfter !== null)
    found.push('stopAfter is for steps of jobs');
  if (step.wants === 'any' && step.needs.length === 0) found.push('wants "any" is for steps with needs');
  for (const problem of found) problems.add(`${label}: ${problem}`);
  return contents;
}

function recognized(work: unknown, tell: (problem: string) => void): Contents | undefined {
  if (Array.isArray(work)) {
    const wrong = work.findIndex((job: unknown) => !isNewJob(job));
    if (wrong === -1) return { kind: 'jobs', jobs: work as readonly NewJob[] };
    tell(`jobs[${wrong}] must be what task.job(payload) returns, not ${say(work[wrong])}`);
    return undefined;
  }
  if (isNewJob(work)) return { kind: 'jobs', jobs: [work] };
  const { kind, schema, delay, steps } = (typeof work === 'object' && work !== null ? work : {}) as Readonly<
    Record<string, unknown>
  >;
  switch (kind) {
    case 'pgqueue.signal': {
      for (const problem of valueProblems(aSchema, schema, 'the schema of the signal')) tell(problem);
      return { kind: 'signal' };
    }
    case 'pgqueue.timer': {
      const ms = parseDuration(delay);
      if (ms === undefined)
        tell(`its timer takes a duration of up to 3650d, such as "3d", not ${say(delay)}`);
      return { kind: 'timer', delayMs: Math.ceil(ms ?? 0) };
    }
    case 'pgqueue.flow': {
      if (Array.isArray(steps)) return { kind: 'flow', flow: work as AnyFlow };
      break;
    }
    default:
  }
  tell(`it must be a job, a list of jobs, signal(schema), timer(duration) or a flow, not ${say(work)}`);
  return undefined;
}

/** Returns what a step waits for: what it says itself, and what its tasks read. */
function needsOf(step: FlowStep, contents: Contents, prefix: string): Pick<FlatStep, 'needs' | 'reads'> {
  const needs = new Map(step.needs.map(([name, condition]) => [prefix + name, condition]));
  const reads: (readonly [string, string | null])[] = [];
  // the jobs of one task share one record
  for (const record of new Set(contents.kind === 'jobs' ? contents.jobs.map((job) => job.needs) : [])) {
    for (const [name, need] of Object.entries(record ?? {}) as (readonly [string, unknown])[]) {
      reads.push([prefix + name, isNeededTask(need) ? need.name : null]);
      if (!needs.has(prefix + name)) needs.set(prefix + name, 'done');
    }
  }
  return { needs, reads };
}
