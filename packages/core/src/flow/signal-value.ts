import { errorData } from '../error-data.ts';
import { PgQueueError, throwProblems } from '../errors.ts';
import { isUuid } from '../ids.ts';
import { shapeProblem } from '../job/shape.ts';
import { issueTexts } from '../job/task.ts';
import { aSchema } from '../job/task-definition.ts';
import { jobLimits, jsonText } from '../job/validate.ts';
import type { Rule } from '../options/options.ts';
import { aText, valueProblems } from '../options/options.ts';
import { flowLimits } from './limits.ts';
import type { Signal } from './step.ts';

const anId = (of: 'flow' | 'job'): Rule => ({
  expected: `the id of a ${of}, a UUID`,
  judge: (value) => typeof value === 'string' && isUuid(value),
});
const aStepName = aText({ max: flowLimits.nameLengthMax });
const aWaitName = aText({ max: jobLimits.waitNameLengthMax });

/**
 * Returns the value for a signal as JSON text. Pure except for the schema: no I/O. The schema sees the value
 * as the tasks that read it will, after a round trip through JSON.
 * @param given.by the signal, if its schema is to check the value
 * @throws {PgQueueError} `invalid_flow`, with all problems at once
 */
export async function toSignalValue(given: {
  readonly flowId: string;
  readonly step: string;
  readonly value: unknown;
  readonly by: Signal | undefined;
  /** `job`: the id is that of a job, whose handler waits for the signal `step`. Default: of a flow. */
  readonly of?: 'flow' | 'job';
}): Promise<string> {
  const { flowId, step, value = null, by, of = 'flow' } = given;
  const subject = `a ${of} can't be signalled`;
  try {
    const problems = [
      ...valueProblems(anId(of), flowId, `${of}Id`),
      ...(of === 'flow' ? valueProblems(aStepName, step, 'step') : valueProblems(aWaitName, step, 'name')),
    ];
    const text = jsonText(value, 'the value', flowLimits.valueBytesMax, problems) ?? 'null';
    if (problems.length === 0) {
      const stored: unknown = JSON.parse(text);
      const problem = shapeProblem(stored);
      problems.push(...(problem === undefined ? await schemaProblems(by, stored) : [`the value ${problem}`]));
    }
    throwProblems('invalid_flow', subject, problems);
    return text;
  } catch (error) {
    if (error instanceof PgQueueError) throw error;
    throw new PgQueueError('invalid_flow', `${subject}: ${errorData(error).message}`, {
      cause: error,
    });
  }
}

async function schemaProblems(by: Signal | undefined, value: unknown): Promise<readonly string[]> {
  if (by === undefined) return [];
  const wrong = valueProblems(aSchema, by.schema, 'the schema of the signal');
  if (wrong.length > 0) return wrong;
  const { issues = [] } = await by.schema['~standard'].validate(value);
  return issueTexts(issues);
}
