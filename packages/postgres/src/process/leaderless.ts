import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';
import { warn } from './waiting.ts';

/** Time before the look, in milliseconds: a scheduler started at the same moment has this long to lead. */
const afterMs = 5_000;

/**
 * Emits a process warning if no scheduler leads some seconds from now. Looks once. Without a scheduler no job
 * ever starts, and nothing fails. A look that fails is ignored.
 * @param isIdle asked before the look: a caller that has work needs no warning
 */
export function warnWithoutLeader(
  target: Target,
  { isIdle, delayMs = afterMs }: { readonly isIdle: () => boolean; readonly delayMs?: number },
): { readonly stop: () => void } {
  const look = async (): Promise<void> => {
    if (!isIdle()) return;
    if ((await ask(target, 'has_leader()', [])) !== false) return;
    warn(
      'PGQUEUE_NO_SCHEDULER',
      `no scheduler leads in schema ${target.schema}: no job starts until there is one ("pgqueue scheduler", or createScheduler)`,
    );
  };
  const timer = setTimeout(() => void look().catch(() => {}), delayMs).unref();
  return { stop: () => clearTimeout(timer) };
}
