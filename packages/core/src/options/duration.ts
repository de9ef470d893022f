import { PgQueueError } from '../errors.ts';

/**
 * A length of time: a number of milliseconds, or a number with its unit, such as `"500ms"`, `"30s"`, `"5m"`,
 * `"2h"`, `"7d"`.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Longest accepted duration: ten years. */
export const longestMs: number = 3_650 * 86_400_000;

/**
 * Returns the milliseconds of a duration. Undefined when it is invalid: negative, not finite, over ten years,
 * or of an unknown unit.
 */
export function parseDuration(duration: unknown): number | undefined {
  const found = typeof duration === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration.trim()) : null;
  const ms =
    typeof duration === 'number' ? duration : Number(found?.[1]) * (unitMs[found?.[2] ?? ''] ?? Number.NaN);
  return Number.isFinite(ms) && ms >= 0 && ms <= longestMs ? ms : undefined;
}

/**
 * Returns the milliseconds of a duration.
 * @throws {PgQueueError} `configuration`, with the name of the field
 */
export function durationMs(duration: Duration, field: string): number {
  const ms = parseDuration(duration);
  if (ms === undefined) {
    throw new PgQueueError(
      'configuration',
      `${field}: ${JSON.stringify(duration)} is no duration; give milliseconds as a number, or "500ms", "30s", "5m", "2h", "7d" (up to 3650d)`,
    );
  }
  return ms;
}
