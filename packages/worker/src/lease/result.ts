import type { Task } from '@pgqueue/core';
import { isOutcome } from '@pgqueue/core/internal';
import { resultText } from './json.ts';

/**
 * Error of an attempt whose result, or a value that it reads, does not fit its schema. The problems may quote it:
 * they are stored with the job, but the message, which is logged, leaves them out.
 */
export class ResultError extends Error {
  override readonly name: string = 'ResultError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[], message = 'the result does not fit the schema of its task') {
    super(message);
    this.problems = problems;
  }
}

/**
 * Checks what a handler returned, if its task has a schema for results. An outcome or an error is no result.
 * @throws {ResultError}
 */
export async function checkReturned(task: Task, value: unknown): Promise<void> {
  if (isOutcome(value) || value instanceof Error) return;
  await resultData(task, value);
}

/**
 * Returns a result as a settlement stores it; null: none. The schema sees it as whoever awaits it will: after
 * a round trip through JSON, in which `undefined` becomes null. A promise only when the schema returns one.
 * @throws {ResultError}
 */
export function resultData(task: Task, value: unknown): string | null | Promise<string | null> {
  const { text, problem } = resultText(value);
  const data = text === 'null' ? null : text;
  if (task.checkResult === undefined) return data;
  const judge = (problems: readonly string[]): string | null => {
    if (problems.length === 0) return data;
    throw new ResultError(problems);
  };
  const found = problem === undefined ? task.checkResult(JSON.parse(text)) : [problem];
  return 'then' in found ? found.then(judge) : judge(found);
}
