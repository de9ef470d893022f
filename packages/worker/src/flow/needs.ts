import type { JobContext, Need, NeedFailure, NeedResult } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { stepOfNeed } from '@pgqueue/core/internal';
import type { EndInStep, NeededStep, PageOfEnds, PagePlace } from '@pgqueue/postgres/internal';
import { keptResult } from '@pgqueue/postgres/internal';
import type { NodePort } from './node-port.ts';

/**
 * Returns `ctx.needs`: a member for each need of the task, with the counts that were read before the handler
 * began. A need that is no step throws when it is read, so that the handler may run without it.
 */
export function createNeeds(port: Pick<NodePort, 'needs' | 'needPage'>): JobContext['needs'] {
  const { names } = port.needs;
  const needs = {};
  for (const name of names) {
    let need: Need | undefined;
    const get = (): Need => (need ??= needOf(port, name));
    Object.defineProperty(needs, name, { get, enumerable: true });
  }
  return needs;
}

/**
 * Returns the step that a task means by a need.
 * @throws {PgQueueError} `not_found`
 */
export function neededStep(steps: readonly NeededStep[], need: string): NeededStep {
  const name = stepOfNeed(
    need,
    steps.map((step) => step.name),
  );
  const found = steps.find((step) => step.name === name);
  if (found !== undefined) return found;
  throw new PgQueueError(
    'not_found',
    steps.length === 0
      ? `ctx.needs.${need}: this job is in no flow, its step needs no other, or its flow ended more than seven days ago: enqueue it as a step of a flow, with needs: ['${need}']`
      : `ctx.needs.${need}: the step of this job needs no step "${need}", but ${steps.map((step) => JSON.stringify(step.name)).join(', ')}`,
    { data: { need, steps: steps.map((step) => step.name) } },
  );
}

function needOf(port: Pick<NodePort, 'needs' | 'needPage'>, name: string): Need {
  const { outcome, done, failed, other } = neededStep(port.needs.steps, name);
  const ends = (): AsyncIterable<EndInStep> => endsByPage((place) => port.needPage(name, place));
  return {
    outcome,
    done,
    failed,
    other,
    failures: {
      [Symbol.asyncIterator]: async function* (): AsyncGenerator<NeedFailure> {
        for await (const { job, outcome: ended } of ends())
          if (ended !== 'done') yield { job, outcome: ended };
      },
    },
    [Symbol.asyncIterator]: async function* (): AsyncGenerator<NeedResult> {
      for await (const end of ends())
        if (end.outcome === 'done') yield { job: end.job, outcome: 'done', result: resultOf(end) };
    },
    one: async () => {
      for await (const end of ends()) if (end.outcome === 'done') return resultOf(end);
      throw new PgQueueError('not_found', `ctx.needs.${name}.one(): none of its jobs has a result`, {
        data: { need: name, outcome },
      });
    },
  };
}

/**
 * Returns the result of a job that is done, or the value of a signal.
 * @throws {PgQueueError} `result_lost`
 */
export function resultOf({ job, result, task }: EndInStep): unknown {
  return task === null ? result : keptResult(job, result);
}

/** Most ends in a page, and those of the first page, whose length nobody knows. */
const pageMax = 1_000;
const firstMax = 100;
/** Length that a page should have, in characters: a result may have a million of them. */
const pageLength = 4_194_304;

/** Reads all ends of a step, a page at a time. */
export async function* endsByPage(
  read: (place: PagePlace) => Promise<PageOfEnds>,
): AsyncGenerator<EndInStep> {
  let after: string | null = null;
  let max = firstMax;
  for (;;) {
    const { ends, length } = await read({ after, max });
    yield* ends;
    const last = ends.at(-1);
    if (last === undefined || ends.length < max) return;
    after = last.job;
    max = Math.min(pageMax, Math.max(1, Math.floor((pageLength * ends.length) / Math.max(1, length))));
  }
}
