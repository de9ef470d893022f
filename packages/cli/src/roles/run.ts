import { onStopSignals } from '@pgqueue/postgres/internal';
import type { Output } from '../output/output.ts';
import { outliveReaders } from '../output/pipes.ts';

/** A role of this process, which runs until it is stopped. */
export interface Role {
  readonly start: () => Promise<void>;
  /** Stops gracefully. May be called before `start` has settled. */
  readonly stop: () => Promise<void>;
  /** Gives running jobs back at once, before the process exits; left out by roles that run none. */
  readonly leave?: () => Promise<void>;
  /** Settles if the role ends by itself; left out if it never does. */
  readonly ended?: Promise<unknown>;
}

/**
 * Starts a role, reports when it is ready, and stops it gracefully on SIGTERM or SIGINT. A second signal ends
 * the process within half a second.
 */
export async function runRole(
  role: Role,
  {
    output,
    ready,
    text: given,
  }: {
    readonly output: Output;
    /** Facts for the ready event. A function, here or in `text`, is called after the start. */
    readonly ready: object | (() => object);
    readonly text: string | (() => string);
  },
): Promise<void> {
  outliveReaders();
  const stop = onStopSignals(role);
  const text = typeof given === 'string' ? (): string => given : given;
  try {
    const started = await Promise.race([role.start().then(() => true), stop.asked.then(() => false)]);
    if (started) {
      const facts: object = typeof ready === 'function' ? (ready as () => object)() : ready;
      output.line({ event: 'ready', ...facts }, () => `${text()} ready`);
      await Promise.race([stop.asked, ...(role.ended === undefined ? [] : [role.ended])]);
    }
    output.note(`${text()} stopping; a second signal ends it at once`);
    await role.stop();
    output.line({ event: 'stopped' }, () => `${text()} stopped`);
  } catch (error) {
    await role.stop().catch(() => {});
    throw error;
  } finally {
    stop.dispose();
  }
}
