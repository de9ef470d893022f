import { errorData } from '../error-data.ts';
import { isPlain } from '../job/task-definition.ts';
import type { Shape } from '../options/options.ts';
import {
  aListOf,
  aNumber,
  aRecordOf,
  aText,
  either,
  oneOf,
  optional,
  optionProblems,
} from '../options/options.ts';
import type { StepOptions } from './step-types.ts';
import type { FlowStep, StepWork } from './step.ts';
import { flowLimits } from './limits.ts';

const shape: Shape<StepOptions> = {
  needs: optional(
    either(
      aListOf(aText(), 'a list of steps'),
      aRecordOf(oneOf('done', 'ended', 'failed'), 'an object with a condition for each step'),
    ),
  ),
  wants: optional(oneOf('all', 'any')),
  stopAfter: optional(aNumber({ min: 1, max: flowLimits.jobsMax, whole: true })),
};

/**
 * Reads a step as it was given, so that a list or an object that changes later changes no flow. Never throws:
 * problems are told with all others of the flow.
 */
export function readStep(name: unknown, work: unknown, options: unknown = {}): FlowStep {
  const unread = { name: name as string, needs: [], wants: 'all', stopAfter: null } as const;
  try {
    const read = (Array.isArray(work) ? [...(work as readonly unknown[])] : work) as StepWork;
    // copied first: a getter might give another value later
    const given = isPlain(options) ? { ...options } : options;
    const problems = optionProblems(given, shape);
    if (problems.length > 0) return { ...unread, work: read, problems };
    const { needs = [], wants = 'all', stopAfter = null } = given as StepOptions;
    return {
      ...unread,
      work: read,
      needs: isList(needs)
        ? needs.map((needed) => [needed, 'done'] as const)
        : Object.entries(needs).map(([needed, condition = 'done']) => [needed, condition] as const),
      wants,
      stopAfter,
      problems,
    };
  } catch (error) {
    return { ...unread, work: [], problems: [`it can't be read (${errorData(error).message})`] };
  }
}

function isList(needs: NonNullable<StepOptions['needs']>): needs is readonly string[] {
  return Array.isArray(needs);
}
