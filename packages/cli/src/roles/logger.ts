import { loggedError } from '@pgqueue/core/internal';
import { pino } from 'pino';
import type { Logger } from 'pino';
import { redactedJson } from '../output/redact.ts';
import type { Redact } from '../output/redact.ts';

export const logLevels: readonly string[] = ['debug', 'info', 'warn', 'error', 'silent'];

/**
 * Creates a logger that writes JSON lines to stderr; stdout is for the command's answer. Errors logged by
 * handlers (`err`) are reduced as pgqueue's own are: PostgreSQL's error details quote the failing row, and
 * with it a payload.
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
  const logger = pino(
    {
      level,
      base: { role, pid: process.pid },
      serializers: { err: (error: unknown) => (error instanceof Error ? loggedError(error) : error) },
      hooks: { streamWrite: (line) => `${redactedJson(line.trimEnd(), { redact })}\n` },
    },
    pino.destination({ dest: 2, sync: true }),
  );
  logWarnings(logger);
  return logger;
}

let logged = false;

/**
 * Logs warnings of the packages. PGQUEUE_WAITING is left out, since each attempt to start is logged anyway.
 */
function logWarnings(logger: Logger): void {
  if (logged) return;
  logged = true;
  const others = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', (warning: Error & { readonly code?: string }) => {
    if (warning.name !== 'PgQueueWarning') for (const listener of others) listener(warning);
    else if (warning.code !== 'PGQUEUE_WAITING') logger.warn({ code: warning.code }, warning.message);
  });
}
