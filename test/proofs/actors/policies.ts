import type { Policy } from '@pgqueue/core';

export function proofPolicy(name: string): Policy {
  throw new Error(`no policy ${name}`);
}
