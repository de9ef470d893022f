import { loggedError } from '@pgqueue/core';
import { pino } from 'pino';
import type { Logger } from 'pino';
import type { Redact } from '../output/redact.ts';

export const logLevels: readonly string[] = ['debug', 'info', 'warn', 'error', 'silent'];

/**
 * JSON lines on stderr; stdout is for what a command answers. Errors that handlers log (`err`) become what those of pgqueue are, too:
 * PostgreSQL's details quote the failing row, and with it a payload.
 */
export function createLogger({
  level,
  role,
  redact,
}: {
  readonly level: string;
  readonly role: string;
  readonly redact: Redact;
}): Logger {
  return pino(
    {
      level,
      base: { role, pid: process.pid },
      serializers: { err: (error: unknown) => (error instanceof Error ? loggedError(error) : error) },
      hooks: { streamWrite: redact },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}
