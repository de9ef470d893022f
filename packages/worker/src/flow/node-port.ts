import type { JobContext } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import type { NeededStep, PageOfEnds, PagePlace } from '@pgqueue/postgres/internal';

/**
 * Calls of a context to the node that holds the lease of its job. The context of an isolated handler makes them
 * from another process, so arguments and answers are plain data.
 */
export interface NodePort {
  readonly needs: NeededSteps;
  /**
   * Reads a page of the ends of a needed step's jobs. The values of a signal are checked.
   * @throws {AbortedError} the lease was lost
   */
  readonly needPage: (need: string, place: PagePlace) => Promise<PageOfEnds>;
  /** Adds checked jobs to the step of the job. False: the lease was lost. */
  readonly addJobs: (rows: readonly JobRow[]) => Promise<boolean>;
}

/** Needs of a task by name, and the steps that its job's step has waited for. */
export interface NeededSteps {
  readonly names: readonly string[];
  readonly steps: readonly NeededStep[];
}

export const noNeeds: NeededSteps = { names: [], steps: [] };

/** Property of a node's contexts, which users do not see. */
export const portKey: unique symbol = Symbol('port');

/** Returns the port of a node's context. */
export function portOf(context: JobContext): NodePort {
  return (context as JobContext & { readonly [portKey]: NodePort })[portKey];
}
