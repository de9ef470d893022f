import type { MessagePort } from 'node:worker_threads';
import type { AbortReason, JobContext } from '@pgqueue/core';
import { isOutcome, unreachable } from '@pgqueue/core';
import { AbortedError } from '../attempt.ts';
import type { Ending } from '../ending.ts';
import { resultText } from '../json.ts';

/** What a child is given to run. */
export interface ChildInput {
  readonly module: string;
  readonly payload: unknown;
  readonly job: JobContext['job'];
  /** In a thread: the way to its parent. A process has its own. */
  readonly port?: MessagePort;
}

/** An error as it crosses the border. */
export interface SentError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: string;
}

/** How the handler ended, as it crosses the border. */
export type ChildEnding =
  | { readonly kind: 'returned'; readonly text: string }
  | { readonly kind: 'threw'; readonly error: SentError }
  | {
      readonly kind: 'outcome';
      readonly outcome: 'retry' | 'give_up' | 'snooze' | 'cancelled';
      readonly delayMs: number | null;
      readonly error: SentError | null;
    };

export function sendable(error: unknown): SentError {
  if (!(error instanceof Error)) return { name: 'Error', message: textOf(error) };
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return {
    name: textOf(name),
    message: textOf(message),
    ...(stack === undefined ? {} : { stack }),
    ...(typeof code === 'string' ? { code } : {}),
  };
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return 'an error that can not be read';
  }
}

export function received({ name, message, stack, code }: SentError): Error {
  if (name === 'AbortedError' && code !== undefined) return new AbortedError(code as AbortReason);
  const error = new Error(message);
  for (const [key, value] of Object.entries({ name, stack, code })) {
    if (value !== undefined) Object.defineProperty(error, key, { value, configurable: true, writable: true });
  }
  return error;
}

/** Of what a handler returned. */
export function encodeReturned(value: unknown): ChildEnding {
  return outcomeOf(value) ?? { kind: 'returned', text: resultText(value).text };
}

export function encodeThrown(error: unknown): ChildEnding {
  return outcomeOf(error) ?? { kind: 'threw', error: sendable(error) };
}

function outcomeOf(value: unknown): ChildEnding | undefined {
  if (!isOutcome(value)) return undefined;
  return {
    kind: 'outcome',
    outcome: value.kind,
    delayMs: 'delayMs' in value ? value.delayMs : null,
    error: 'error' in value ? sendable(value.error) : null,
  };
}

/** What the node makes of it. */
export function decode(
  ending: ChildEnding,
  outcomes: {
    readonly retry: (delayMs: number | null, error: unknown) => unknown;
    readonly giveUp: (error: unknown) => unknown;
    readonly snooze: (delayMs: number) => unknown;
    readonly cancelled: () => unknown;
  },
): Extract<Ending, { readonly kind: 'returned' | 'threw' }> {
  switch (ending.kind) {
    case 'returned':
      return { kind: 'returned', value: JSON.parse(ending.text) as unknown };
    case 'threw':
      return { kind: 'threw', error: received(ending.error) };
    case 'outcome': {
      const { outcome, delayMs } = ending;
      const error = ending.error === null ? null : received(ending.error);
      switch (outcome) {
        case 'retry':
          return { kind: 'returned', value: outcomes.retry(delayMs, error) };
        case 'give_up':
          return { kind: 'returned', value: outcomes.giveUp(error) };
        case 'snooze':
          return { kind: 'returned', value: outcomes.snooze(delayMs ?? 0) };
        case 'cancelled':
          return { kind: 'returned', value: outcomes.cancelled() };
        default:
          return unreachable(outcome);
      }
    }
    default:
      return unreachable(ending);
  }
}
