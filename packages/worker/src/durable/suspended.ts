/**
 * Thrown by a wait of a handler (`ctx.sleep`, `ctx.all`, `ctx.waitForSignal`) when its attempt is over, and its job
 * waits without a slot. Let it pass: code that catches all errors rethrows it.
 */
export class Suspended extends Error {
  override readonly name: string = 'Suspended';

  /** @param wait name of the wait */
  constructor(wait: string) {
    super(`the job waits for ${JSON.stringify(wait)} without a slot: this attempt is over`);
  }
}
