import type { Target } from '../connection/target.ts';
import { warn } from './waiting.ts';

/** A scheduler that starts beside has this long to lead. */
const afterMs = 5_000;

/**
 * Looks once, some seconds from now, whether a scheduler leads, and says so by a process warning where none does: without one no job ever
 * starts, and nothing fails. What can't be asked is left out.
 * @param isIdle asked first: whoever has work needs no warning
 */
export function warnWithoutLeader(
  target: Target,
  { isIdle, delayMs = afterMs }: { readonly isIdle: () => boolean; readonly delayMs?: number },
): { readonly stop: () => void } {
  const look = async (): Promise<void> => {
    if (!isIdle()) return;
    const [row] = await target.query<{ readonly leads: boolean }>(
      `select ${target.schema}.has_leader() as leads`,
      [],
    );
    if (row?.leads !== false) return;
    warn(
      'PGQUEUE_NO_SCHEDULER',
      `no scheduler leads in schema ${target.schema}: no job starts until there is one ("pgqueue scheduler", or createScheduler)`,
    );
  };
  const timer = setTimeout(() => void look().catch(() => {}), delayMs).unref();
  return { stop: () => clearTimeout(timer) };
}
