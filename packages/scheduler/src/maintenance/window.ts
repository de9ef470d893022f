import type { Gate, JobFacts, Verdict } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { neverMs } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aNumber,
  aText,
  madeWith,
  oneOf,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import { latestSlot, nextSlot, scheduleProblems } from '@pgqueue/postgres/internal';

/** Options of {@link maintenanceWindow}. */
export interface MaintenanceWindowOptions {
  /** Name of the gate, used in reasons. */
  readonly name: string;
  /** Cron expression for the start of each window. */
  readonly cron: string;
  /** Time zone of the cron expression, such as `Europe/Berlin`. Default `UTC`. */
  readonly timezone?: string;
  /**
   * Length of each window in elapsed milliseconds, even if the clock is set forward or back during it. At
   * least 1000. Overlapping windows are merged.
   */
  readonly durationMs: number;
  /** `closed_during`: jobs go only outside the windows. `open_during`: jobs go only within them. */
  readonly mode: 'closed_during' | 'open_during';
  /** Selects the jobs the gate applies to. Default: all. */
  readonly when?: (job: JobFacts) => boolean;
  /**
   * Promises that `when` depends only on the job's queue and key, so the rest of a key need not be asked
   * about. Default: true without `when`.
   */
  readonly lane?: boolean;
}

const shape: Shape<MaintenanceWindowOptions> = {
  name: aText({ max: 100 }),
  cron: aText(),
  timezone: optional(aText()),
  durationMs: aNumber({ min: 1_000 }),
  mode: oneOf('closed_during', 'open_during'),
  when: optional(aFunction),
  lane: optional(aFlag),
};

/** A period in which the answer stays the same: within a window, or between two. */
interface Stretch {
  readonly fromMs: number;
  /** Null: it never ends. */
  readonly toMs: number | null;
  readonly inside: boolean;
}

/**
 * Holds jobs during windows of time, or outside of them. Windows start when a cron expression in a time zone
 * says; the database's clock decides. A window in the hour that daylight saving skips starts right after that
 * hour, and one in the repeated hour the first time. If the expression has a wildcard or a step in its seconds,
 * minutes or hours, windows in a skipped hour are left out, and those in a repeated hour start both times.
 * @throws {PgQueueError} `configuration`
 */
export function maintenanceWindow(options: MaintenanceWindowOptions): Gate {
  const called: unknown = options?.name;
  throwProblems('configuration', `gate ${typeof called === 'string' ? called : 'maintenanceWindow'}`, [
    ...optionProblems(options, shape),
    ...(typeof options?.cron === 'string' ? scheduleProblems(options.cron, options.timezone) : []),
  ]);
  const { name, cron, timezone = 'UTC', durationMs, mode, when, lane = when === undefined } = options;
  const held: Verdict = lane ? 'hold_lane' : 'hold';
  // may be cached, since it depends on the time alone
  let known: Stretch | undefined;
  const at = (nowMs: number): Stretch => {
    const holds = known !== undefined && nowMs >= known.fromMs && nowMs < (known.toMs ?? Infinity);
    known = holds && known !== undefined ? known : stretchAt(nowMs, { cron, timezone, durationMs });
    return known;
  };
  return madeWith(options, {
    name,
    tellsTime: true,
    groups: { of: (job) => (when?.(job) === false ? null : ''), lane },
    open: ({ nowMs }) => {
      let asked: Stretch | undefined;
      const isHeld = (job: JobFacts): boolean => {
        if (when?.(job) === false) return false;
        asked ??= at(nowMs);
        return asked.inside === (mode === 'closed_during');
      };
      let holds = false;
      return {
        admits: (job) => {
          if (!isHeld(job)) return 'admit';
          holds = true;
          return held;
        },
        why: (job) => {
          if (!isHeld(job)) return { message: 'it may go', untilMs: null };
          const { toMs } = at(nowMs);
          return { message: `${name} ${sayStretch(mode, toMs, timezone)}`, untilMs: toMs ?? neverMs };
        },
        nextMs: () => (holds ? (asked?.toMs ?? null) : null),
      };
    },
  } satisfies Gate);
}

interface Windows {
  readonly cron: string;
  readonly timezone: string;
  readonly durationMs: number;
}

/** Most adjacent windows merged into one. */
const chainMax = 10;

function stretchAt(nowMs: number, { cron, timezone, durationMs }: Windows): Stretch {
  const begun = latestSlot(cron, timezone, { fromMs: Math.floor(nowMs - durationMs) + 1, toMs: nowMs });
  if (begun === null) return { fromMs: nowMs, toMs: nextSlot(cron, timezone, nowMs), inside: false };
  let endMs = begun + durationMs;
  for (let joined = 1; joined < chainMax; joined += 1) {
    const next = latestSlot(cron, timezone, { fromMs: endMs - durationMs + 1, toMs: endMs });
    if (next === null) break;
    endMs = next + durationMs;
  }
  return { fromMs: nowMs, toMs: endMs, inside: true };
}

function sayStretch(mode: MaintenanceWindowOptions['mode'], toMs: number | null, timezone: string): string {
  if (mode === 'closed_during')
    return `is under way until ${sayTime(toMs, timezone)}: nothing goes meanwhile`;
  return toMs === null ? 'never opens again' : `opens at ${sayTime(toMs, timezone)}: nothing goes before`;
}

/** Formats a time in the window's time zone: `2027-03-28 03:00:00 Europe/Berlin`. */
function sayTime(ms: number | null, timezone: string): string {
  if (ms === null) return 'further notice';
  const parts = new Intl.DateTimeFormat('sv-SE', {
    timeZone: timezone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  return `${parts.format(ms)} ${timezone}`;
}
