import { loggedError } from '@pgqueue/core';
import type { Redact } from './output/redact.ts';

/**
 * What nobody caught ends the process with code 1, as it would without this. But Node's own report shows everything that an error
 * carries: details of PostgreSQL's, which quote whole rows, among it.
 */
export function endOnUncaught(redact: Redact): void {
  process.on('uncaughtException', (error: unknown) => {
    const text = JSON.stringify(loggedError(error));
    process.stderr.write(`${redact(`pgqueue: ended by an error that nobody caught: ${text}`)}\n`);
    process.exit(1);
  });
}
