import type { Rule, Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { aFlag, aFunction, aNumber, aText, optional } from '@pgqueue/core/internal';
import type { DatabaseOptions } from './database.ts';
import { aConnectionString } from './connection-string.ts';
import { checkSchemaName } from './schema.ts';

const aPool: Rule = {
  expected: 'a Pool of pg',
  judge: (value) => {
    if (typeof value !== 'object' || value === null) return false;
    const { connect, query } = value as Readonly<Record<string, unknown>>;
    return typeof connect === 'function' && typeof query === 'function';
  },
};

/** Rule for the schema's name, which becomes part of every statement. */
const aSchemaName: Rule = {
  expected: 'the name of a schema',
  judge: (value) => {
    try {
      checkSchemaName(value as string);
      return true;
    } catch (error) {
      if (error instanceof PgQueueError) return [error.message];
      throw error;
    }
  },
};

/** Rules for the options of a connection to an installation. */
export const databaseShape: Shape<DatabaseOptions> = {
  connectionString: optional(aConnectionString),
  pool: optional(aPool),
  schema: optional(aSchemaName),
  connectionsMax: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  applicationName: optional(aText({ min: 0 })),
  queryTimeoutMs: optional(aNumber({ min: 0 })),
  prepare: optional(aFlag),
  onError: optional(aFunction),
};
