import type { OpenGate } from '../../gate.ts';

/** Gate for a limit that is not set: admits every job. */
export const unlimited: OpenGate = {
  admits: () => 'admit',
  why: () => ({ message: 'it may go', untilMs: null }),
};
