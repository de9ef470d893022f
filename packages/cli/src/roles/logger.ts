import { pino } from 'pino';
import type { Logger } from 'pino';
import type { Redact } from '../output/redact.ts';

export const logLevels: readonly string[] = ['debug', 'info', 'warn', 'error', 'silent'];

/**
 * JSON lines on stderr; stdout is for what a command answers. Of an error only name, message, code and stack: PostgreSQL's
 * details quote the failing row, and with it a payload.
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
      serializers: { err: errorFields },
      hooks: { streamWrite: redact },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}

function errorFields(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return { name, message, stack, ...(code === undefined ? {} : { code }) };
}
