import type { ErrorCode } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { sqlState } from '@pgqueue/postgres/internal';
import { CommanderError } from 'commander';
import { databaseMessage } from './database-message.ts';

/** Exit code of a command: 0 done, 1 failed, 2 wrong usage, 78 wrong configuration. */
export type ExitCode = 0 | 1 | 2 | 78;

/** Thrown by a command that has already reported its result, to set the exit code. */
export class Exit extends Error {
  override readonly name: string = 'Exit';
  readonly code: ExitCode;

  constructor(code: ExitCode) {
    super(`exit ${code}`);
    this.code = code;
  }
}

/** Options that cannot be combined, found after parsing. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError';
}

export interface Failure {
  readonly exit: ExitCode;
  readonly code: string;
  /** Undefined: already reported. */
  readonly message: string | undefined;
}

/** Maps an error to its exit code, its code for programs and its message. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Exit) return { exit: error.code, code: 'exit', message: undefined };
  if (error instanceof CommanderError)
    return { exit: error.exitCode === 0 ? 0 : 2, code: 'usage', message: undefined };
  if (error instanceof UsageError) return { exit: 2, code: 'usage', message: error.message };
  if (error instanceof PgQueueError) return ofPgQueue(error);
  return { exit: 1, code: sqlState(error) ?? 'failed', message: databaseMessage(error) };
}

function ofPgQueue({ code, message }: PgQueueError): Failure {
  const exits: Readonly<Partial<Record<ErrorCode, ExitCode>>> = {
    configuration: 78,
    schema_version: 78,
    invalid_job: 2,
    invalid_flow: 2,
  };
  return { exit: exits[code] ?? 1, code, message };
}
