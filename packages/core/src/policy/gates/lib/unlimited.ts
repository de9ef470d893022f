import type { OpenGate } from '../../gate.ts';

/** A limit that is not there: it need not be asked. */
export const unlimited: OpenGate = {
  admits: () => 'admit',
  why: () => ({ message: 'it may go', untilMs: null }),
};
