import { Cron } from 'croner';

/**
 * Returns the problems of a cron expression and its time zone; empty if there are none. An expression without
 * a slot after `afterMs` (Unix ms) is a problem, too: the 31st of February never comes, and a year that has
 * passed does not come again.
 */
export function scheduleProblems(cron: string, timezone = 'UTC', afterMs = 0): readonly string[] {
  const problem = (text: string): readonly string[] => [
    `cron ${JSON.stringify(cron)} in time zone ${JSON.stringify(timezone)}: ${text}`,
  ];
  if (!isTimeZone(timezone))
    return problem('the time zone must be an IANA name, such as "Europe/Berlin" or "UTC"');
  try {
    if (nextSlot(cron, timezone, afterMs) !== null) return [];
    return problem(`there is no such time${afterMs === 0 ? '' : ' from now on'}: it would never come`);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return problem(text.replace(/^Cron\w+: /, ''));
  }
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/**
 * Returns the first slot after a time (both Unix ms), or null if there is none. A slot in the hour that
 * daylight saving skips moves to the first moment after that hour, and one in the hour that comes twice is
 * taken the first time only. An expression with a wildcard or a step in its seconds, minutes or hours leaves
 * out the slots of a skipped hour, and takes those of a repeated hour both times.
 * @throws {Error} if the expression or the time zone is invalid
 */
export function nextSlot(cron: string, timezone: string, afterMs: number): number | null {
  return open(cron, timezone).nextRun(new Date(afterMs))?.getTime() ?? null;
}

/**
 * Returns the latest slot from `fromMs` to `toMs`, both included; null if there is none. After a downtime,
 * this one slot is made up for.
 */
export function latestSlot(
  cron: string,
  timezone: string,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): number | null {
  const expression = open(cron, timezone);
  const after = (ms: number): number => expression.nextRun(new Date(ms))?.getTime() ?? Infinity;
  // the next slot never moves back as time moves on, so bisection finds the last one
  let [low, high] = [fromMs - 1, toMs];
  let found = after(low);
  if (found > toMs) return null;
  while (high - low > 500) {
    const middle = Math.floor((low + high) / 2);
    const slot = after(middle);
    if (slot > toMs) high = middle;
    else [low, found] = [slot, slot];
  }
  return found;
}

function open(cron: string, timezone: string): Cron {
  // by default, lists and ranges count as repeating, too
  return new Cron(cron, { timezone, paused: true, fixedTimeRule: 'no-wildcard' });
}
