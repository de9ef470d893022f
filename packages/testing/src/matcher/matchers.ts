import type { AnyFlow, Task } from '@pgqueue/core';
import { checkSchemaName, defaultSchema } from '@pgqueue/postgres/internal';
import { readEnqueued } from './enqueued.ts';
import { executorOf } from './executor-of.ts';
import type { EnqueuedOptions, Fits, PartOf } from './expectation.ts';
import { differences, expectationOf } from './expectation.ts';
import { isOfTask, missingMessage, presentMessage } from './message.ts';
import type { StartedOptions } from './started.ts';
import { startedOf } from './started.ts';

/** Matchers that this package adds to `expect`. */
export interface PgQueueMatchers {
  /**
   * Checks that a job was enqueued and has not ended. Use it on `expect(database or transaction)`, and await
   * it. It sees what that transaction sees. Without arguments, any job fits.
   * @param payload part of it; it is compared as `toMatchObject` does
   */
  toHaveEnqueued<Input>(
    task?: Task<Input> | string,
    payload?: PartOf<NoInfer<Input>>,
    options?: EnqueuedOptions,
  ): Promise<void>;
  /**
   * Checks that a flow was started, whatever its state is now: flows are kept for seven days after their end. Use it
   * as `toHaveEnqueued`, which sees the jobs of a flow once their step has begun. Without arguments, any flow
   * fits.
   * @param flow a flow, whose name is compared, or its name
   */
  toHaveStarted(flow?: AnyFlow | string, options?: StartedOptions): Promise<void>;
}

/** Context that a runner gives a matcher: the members that both vitest and jest have. */
export interface MatcherContext {
  readonly equals: (a: unknown, b: unknown, testers?: never) => boolean;
  readonly utils: { readonly iterableEquality: unknown; readonly subsetEquality: unknown };
}

/** Result of a matcher. */
export interface MatcherResult {
  readonly pass: boolean;
  readonly message: () => string;
}

/**
 * The matchers by their names, for `expect.extend`, when a configuration can name neither of the subpaths for
 * vitest and jest.
 */
export const matchers = {
  async toHaveEnqueued(
    this: MatcherContext,
    received: unknown,
    task?: Task<never> | string,
    payload?: unknown,
    options?: EnqueuedOptions,
  ): Promise<MatcherResult> {
    const expectation = expectationOf(task, payload, options);
    const schema = checkSchemaName(options?.schema ?? schemaOf(received));
    const found = await readEnqueued(await executorOf(received, 'toHaveEnqueued'), schema);
    const fits = fitsBy(this);
    const fitting = found.jobs.filter(
      (job) => isOfTask(job, expectation) && differences(job, expectation, fits).length === 0,
    );
    const { times } = expectation.options;
    const pass = times === undefined ? fitting.length > 0 : fitting.length === times;
    const say = pass ? presentMessage : missingMessage;
    return { pass, message: () => say(expectation, found, fits) };
  },
  async toHaveStarted(
    this: MatcherContext,
    received: unknown,
    flow?: AnyFlow | string,
    options?: StartedOptions,
  ): Promise<MatcherResult> {
    const expectation = startedOf(flow, options);
    const schema = checkSchemaName(options?.schema ?? schemaOf(received));
    return expectation.judge(await executorOf(received, 'toHaveStarted'), schema, fitsBy(this));
  },
} as const;

function fitsBy({ equals, utils }: MatcherContext): Fits {
  return (actual, expected) =>
    equals(actual, expected, [utils.iterableEquality, utils.subsetEquality] as never);
}

function schemaOf(received: unknown): string {
  const given = typeof received === 'object' && received !== null && 'schema' in received && received.schema;
  return typeof given === 'string' ? given : defaultSchema;
}
