import { throwProblems } from '../errors.ts';
import type { Rule, Shape } from '../options/options.ts';
import { aNumber, anything, optional, optionProblems } from '../options/options.ts';
import type { Handler, Task } from './task.ts';

/** The limits of an isolated handler's processes. */
export interface IsolatedOptions {
  /** JavaScript memory of one process, 16 to 65,536 MiB. An attempt that needs more dies, alone. Default: Node's own limit. */
  readonly memoryMb?: number;
  /** How many of its jobs a node runs at a time. One that waits for another uses up its own timeout. Default: the node's slots. */
  readonly concurrency?: number;
}

/** A handler that runs in a process of its own. Made by {@link isolated}. */
export interface IsolatedHandler {
  readonly kind: 'pgqueue.isolated';
  /** The URL of a module that exports the handler. */
  readonly module: string;
  readonly options: IsolatedOptions;
}

/** The type of a task's handler, for the module that exports it: `export const handler: HandlerOf<typeof resize> = …`. */
export type HandlerOf<T> =
  // oxlint-disable-next-line typescript/no-explicit-any
  T extends Task<any, infer Output, infer Saved> ? Handler<Output, unknown, Saved> : never;

const shape: Shape<IsolatedOptions> = {
  memoryMb: optional(aNumber({ min: 16, max: 65_536, whole: true })),
  concurrency: optional(aNumber({ min: 1, max: 10_000, whole: true })),
};

const aModule: Rule = {
  expected: "a URL: new URL('./resize.ts', import.meta.url)",
  judge: (value) => /^(?:file|data|node):/.test(hrefOf(value) ?? ''),
};

/**
 * For {@link implement}: runs a task's handler in child processes, which are kept for the next job. The module exports it as
 * `handler`, or by default. For handlers that use the CPU for long, or that may crash: what goes wrong costs one attempt, and neither
 * the node nor its other jobs. An attempt whose process died counts as a crash.
 * @throws {PgQueueError} `configuration`
 */
export function isolated(module: { readonly href: string }, options: IsolatedOptions = {}): IsolatedHandler {
  throwProblems('configuration', 'isolated(module, options)', [
    ...optionProblems({ module, options }, { module: aModule, options: anything }),
    ...optionProblems(options, shape),
  ]);
  return { kind: 'pgqueue.isolated', module: module.href, options };
}

/** Whether a value was made by {@link isolated}. */
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
