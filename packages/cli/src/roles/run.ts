import type { Output } from '../output/output.ts';
import { onStopSignals } from './stop.ts';

/** Something that runs until it is told to stop. */
export interface Role {
  readonly start: () => Promise<void>;
  /** Stops in order. May be called before `start` has settled. */
  readonly stop: () => Promise<void>;
  /** Settles when it ends by itself; left out where it never does. */
  readonly ended?: Promise<unknown>;
}

/** Starts a role, says when it is ready, and stops it in order on SIGTERM or SIGINT. A second signal ends it at once. */
export async function runRole(
  role: Role,
  { output, ready, text }: { readonly output: Output; readonly ready: object; readonly text: string },
): Promise<void> {
  const stop = onStopSignals();
  try {
    const early = await Promise.race([role.start().then(() => undefined), stop.asked]);
    if (early === undefined) {
      output.line({ event: 'ready', ...ready }, () => `${text} ready`);
      await Promise.race([stop.asked, ...(role.ended === undefined ? [] : [role.ended])]);
    }
    output.note(`${text} stopping; a second signal ends it at once`);
    await role.stop();
    output.line({ event: 'stopped' }, () => `${text} stopped`);
  } catch (error) {
    await role.stop().catch(() => {});
    throw error;
  } finally {
    stop.dispose();
  }
}
