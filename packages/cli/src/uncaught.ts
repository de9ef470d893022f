import { loggedError } from '@pgqueue/core/internal';
import type { Redact } from './output/redact.ts';

/**
 * Ends the process with code 1 on an uncaught error, as Node does by default. Node's own report would print
 * all properties of the error, including PostgreSQL's details, which quote whole rows.
 */
export function endOnUncaught(redact: Redact): void {
  process.on('uncaughtException', (error: unknown) => {
    const text = JSON.stringify(loggedError(error));
    process.stderr.write(`${redact(`pgqueue: ended by an error that nobody caught: ${text}`)}\n`);
    process.exit(1);
  });
}
