import { throwProblems } from '../errors.ts';
import type { Rule, Shape } from '../options/options.ts';
import { aNumber, anything, optional, optionProblems } from '../options/options.ts';
import type { Handler, Task } from './task.ts';

/** Limits of the processes of an isolated handler. */
export interface IsolatedOptions {
  /**
   * JavaScript memory of one process, 16 to 65,536 MiB. An attempt that needs more dies, and only that
   * attempt. Default: Node's own limit.
   */
  readonly memoryMb?: number;
  /**
   * Most jobs of the handler that a node runs at a time, 1 to 10,000. A job that waits for another uses up
   * its own timeout, and a slot; a worker with this task alone has no such waits. Default: the node's slots.
   */
  readonly concurrency?: number;
}

/** A handler that runs in a process of its own. Made by {@link isolated}. */
export interface IsolatedHandler {
  readonly kind: 'pgqueue.isolated';
  /** URL of the module that exports the handler. */
  readonly module: string;
  readonly options: IsolatedOptions;
}

/**
 * Type of a task's handler, for the module that exports it:
 * `export const handler: HandlerOf<typeof resize> = …`.
 */
export type HandlerOf<T> =
  // oxlint-disable-next-line typescript/no-explicit-any
  T extends Task<any, infer Output, infer Saved, infer Result, string, infer Needs>
    ? Handler<Output, Result, Saved, Needs>
    : never;

const shape: Shape<IsolatedOptions> = {
  memoryMb: optional(aNumber({ min: 16, max: 65_536, whole: true })),
  concurrency: optional(aNumber({ min: 1, max: 10_000, whole: true })),
};

const aModule: Rule = {
  expected: "a URL: new URL('./resize.ts', import.meta.url)",
  judge: (value) => /^(?:file|data|node):/.test(hrefOf(value) ?? ''),
};

/**
 * Makes a handler for {@link implement} that runs in child processes, which are reused for later jobs. The
 * module exports the handler as `handler`, or as its default export. Use it for handlers that use the CPU for
 * long, or that may crash: a failure costs one attempt, but neither the node nor its other jobs. An attempt
 * whose process died counts as a crash.
 * @throws {PgQueueError} `configuration`
 */
export function isolated(module: { readonly href: string }, options: IsolatedOptions = {}): IsolatedHandler {
  throwProblems('configuration', 'isolated(module, options)', [
    ...optionProblems({ module, options }, { module: aModule, options: anything }),
    ...optionProblems(options, shape),
  ]);
  return { kind: 'pgqueue.isolated', module: module.href, options };
}

/** Reports whether a value was made by {@link isolated}. */
export function isIsolated(value: unknown): value is IsolatedHandler {
  return (
    typeof value === 'object' &&
    value !== null &&
    (value as Partial<IsolatedHandler>).kind === 'pgqueue.isolated'
  );
}

function hrefOf(value: unknown): string | undefined {
  const href: unknown =
    typeof value === 'object' && value !== null ? (value as { href?: unknown }).href : undefined;
  return typeof href === 'string' ? href : undefined;
}
