import { isOutcome } from '@pgqueue/core/internal';
import type { Attempt } from '../attempt/attempt.ts';
import type { Ending } from '../lease/ending.ts';

/**
 * Turns a return into a failure if a rejection is still unhandled: *done* would not be true. Other outcomes
 * are the handler's choice, and stay.
 */
export function withFloating(attempt: Attempt, ending: Ending): Ending {
  if (!attempt.floats) return ending;
  const done = ending.kind === 'fan_out' || (ending.kind === 'returned' && !isOutcome(ending.value));
  if (!done) return ending;
  const [error] = attempt.floating.values();
  return { kind: 'threw', error };
}

/** Returns the error of a handler whose job is already done; undefined: none. */
export function lateError(ending: Ending): unknown {
  if (ending.kind === 'fan_out') return new Error('its handler asked for fan_out when its job was done');
  if (ending.kind !== 'returned' && ending.kind !== 'threw') return undefined;
  const value = ending.kind === 'returned' ? ending.value : ending.error;
  if (isOutcome(value)) return new Error(`its handler asked for ${value.kind} when its job was done`);
  return ending.kind === 'threw' || value instanceof Error ? value : undefined;
}
