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

/** Starts a role, says when it is ready, and stops it in order, on SIGTERM or SIGINT: a second signal ends it at once. */
export async function runRole(
  role: Role,
  {
    output,
    ready,
    text: given,
  }: {
    readonly output: Output;
    /** Both: a function where it is known only when it has started. */
    readonly ready: object | (() => object);
    readonly text: string | (() => string);
  },
): Promise<void> {
  const stop = onStopSignals();
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
