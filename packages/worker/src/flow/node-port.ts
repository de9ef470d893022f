import type { JobContext } from '@pgqueue/core';
import type { FlowRow, JobRow } from '@pgqueue/core/internal';
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
  /**
   * Begins a step or a wait. Resolves to what an earlier attempt has kept of it; undefined: nothing.
   * @throws {PgQueueError} `configuration`
   */
  readonly begin: (name: string, kind: MemoEntry['kind']) => Promise<MemoEntry | undefined>;
  /**
   * Keeps the result of a step. Text: its JSON; undefined: none.
   * @throws {AbortedError} the lease was lost
   */
  readonly keep: (name: string, text: string | undefined) => Promise<void>;
  /**
   * Suspends the job until a time, kept under `name`. Resolves when the time has passed.
   * @throws {Suspended}
   */
  readonly sleep: (name: string, ms: number) => Promise<void>;
  /**
   * Suspends the job until a flow has ended, kept under `name`. Resolves when it has.
   * @throws {Suspended}
   */
  readonly wait: (name: string, entry: FlowEntry, flow: FlowRow) => Promise<void>;
  /**
   * Reads a page of the ends of the jobs of a flow that the job has waited for. `signal`: the name of the signal that the flow
   * waits for.
   * @throws {AbortedError} the lease was lost
   */
  readonly waitedPage: (flow: string, place: PagePlace, signal?: string) => Promise<PageOfEnds>;
}

/** Part of a job's memo: a step, or a wait. */
export type MemoEntry =
  /** `value` is missing where the step returned undefined. */
  | { readonly kind: 'step'; readonly value?: unknown }
  /** Unix milliseconds, by the database's clock. */
  | { readonly kind: 'sleep'; readonly untilMs: number }
  | FlowEntry;

/** A wait for a flow. `over`: the flow is known to have ended. */
export type FlowEntry =
  | { readonly kind: 'all'; readonly flow: string; readonly jobs: number; readonly over?: boolean }
  | { readonly kind: 'signal'; readonly over?: boolean };

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
