import type { AbortReason, ErrorData, JobContext } from '@pgqueue/core';
import { cancelled, giveUp, retryAfter, snooze } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { errorData, isOutcome, unreachable } from '@pgqueue/core/internal';
import { Suspended } from '../durable/suspended.ts';
import type { Adding } from '../flow/added-jobs.ts';
import { addedRows } from '../flow/added-jobs.ts';
import type { NeededSteps } from '../flow/node-port.ts';
import { AbortedError } from '../lease/timing.ts';
import type { Ending } from '../lease/ending.ts';
import { ResultError } from '../lease/result.ts';
import type { SentResult } from '../lease/json.ts';
import { receivedResult, sentResult } from '../lease/json.ts';

/** Input of a child process for one attempt. */
export interface ChildInput {
  readonly module: string;
  readonly payload: unknown;
  readonly job: JobContext['job'];
  readonly needs: NeededSteps;
  /** The texts of errors are written nowhere, since the codec encodes them. */
  readonly conceals: boolean;
  /** Effect of a rejection that nobody handles. */
  readonly floatingRejections: 'fail' | 'crash';
}

/** Ending of a handler in the form that crosses the border. */
export type ChildEnding =
  | { readonly kind: 'returned'; readonly result: SentResult }
  | { readonly kind: 'threw'; readonly error: CrossingError }
  /** Done, with jobs that are added: checked, since functions can't cross. */
  | { readonly kind: 'fan_out'; readonly rows: readonly JobRow[]; readonly result: SentResult }
  | {
      readonly kind: 'outcome';
      readonly outcome: 'retry' | 'give_up' | 'snooze' | 'cancelled';
      readonly delayMs: number | null;
      readonly error: CrossingError | null;
    };

/** An error as it crosses the border. */
export interface CrossingError extends ErrorData {
  /** Problems of a {@link ResultError}, which its message leaves out. */
  readonly problems?: readonly string[];
}

export function sentError(error: unknown): CrossingError {
  const data = errorData(error);
  // by its name first: a revoked proxy can't be looked at
  const isResult = data.name === 'ResultError' && error instanceof ResultError;
  return isResult ? { ...data, problems: error.problems } : data;
}

/** Restores an error that has crossed the border. */
export function received({ name, message, code, stack, errors, cause, problems }: CrossingError): Error {
  if (name === 'AbortedError' && code !== undefined) return new AbortedError(code as AbortReason);
  const plain = problems === undefined ? new Error(message) : new ResultError(problems, message);
  const error = name === 'Suspended' ? new Suspended('') : plain;
  const parts = { name, message, code, errors: errors?.map(received), cause: cause && received(cause) };
  for (const [key, value] of Object.entries({ ...parts, stack: stack ?? '' })) {
    if (value !== undefined) Object.defineProperty(error, key, { value, configurable: true, writable: true });
  }
  return error;
}

/**
 * Encodes the value that a handler returned.
 * @throws {PgQueueError} `invalid_job`: it adds a job that can't be enqueued
 */
export async function encodeReturned(value: unknown, adding: Adding): Promise<ChildEnding> {
  if (value instanceof Error) return encodeThrown(value, adding);
  return (await outcomeOf(value, adding)) ?? { kind: 'returned', result: sentResult(value) };
}

/** Encodes an error, or an outcome, that a handler threw. */
export async function encodeThrown(error: unknown, adding: Adding): Promise<ChildEnding> {
  try {
    return (await outcomeOf(error, adding)) ?? { kind: 'threw', error: sentError(error) };
  } catch (refusal) {
    return { kind: 'threw', error: sentError(refusal) };
  }
}

async function outcomeOf(value: unknown, adding: Adding): Promise<ChildEnding | undefined> {
  if (!isOutcome(value)) return undefined;
  if (value.kind === 'fan_out') {
    const rows = await addedRows(value.jobs, adding, 'fanOut');
    return { kind: 'fan_out', rows, result: sentResult(value.result) };
  }
  return {
    kind: 'outcome',
    outcome: value.kind,
    delayMs: 'delayMs' in value ? value.delayMs : null,
    error: 'error' in value ? sentError(value.error) : null,
  };
}

/** Decodes an ending on the node's side. */
export function decode(
  ending: ChildEnding,
): Extract<Ending, { readonly kind: 'returned' | 'threw' | 'fan_out' }> {
  switch (ending.kind) {
    case 'returned':
      return { kind: 'returned', value: receivedResult(ending.result) };
    case 'threw':
      return { kind: 'threw', error: received(ending.error) };
    case 'fan_out':
      return { kind: 'fan_out', rows: ending.rows, result: receivedResult(ending.result) };
    case 'outcome': {
      const { outcome, delayMs } = ending;
      const error = ending.error === null ? null : received(ending.error);
      switch (outcome) {
        case 'retry':
          return { kind: 'returned', value: retryAfter(delayMs, error) };
        case 'give_up':
          return { kind: 'returned', value: giveUp(error) };
        case 'snooze':
          return { kind: 'returned', value: snooze(delayMs ?? 0) };
        case 'cancelled':
          return { kind: 'returned', value: cancelled() };
        default:
          return unreachable(outcome);
      }
    }
    default:
      return unreachable(ending);
  }
}
