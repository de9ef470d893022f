import { PgQueueError } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { aNumber, optionProblems, throwProblems } from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';
import { sqlState } from '../connection/pg-errors.ts';
import type { InstallationIdentity } from '../calls/installation/identity.ts';
import { initInstallation, readIdentity } from '../calls/installation/identity.ts';

/** Identity of this installation among several. */
export interface InstallationOperator {
  /** Reads its number and name; undefined: it has none, and stands alone. */
  readonly get: () => Promise<InstallationIdentity | undefined>;
  /**
   * Gives it a number and a name, or changes them. Ids that are made from then on name the number; producers that
   * have started before make ids without it.
   * @throws {PgQueueError} `configuration`, before any I/O; also for another number once jobs have ids with the
   * present one
   */
  readonly init: (identity: InstallationIdentity) => Promise<'created' | 'changed' | 'unchanged'>;
}

/** Rules for number and name. */
export const identityShape: Shape<InstallationIdentity> = {
  number: aNumber({ min: 0, max: 1_023, whole: true }),
  name: {
    expected: 'a name of 1 to 63 of a-z, 0-9, - and _, not beginning with - or _',
    judge: (value) => typeof value === 'string' && /^[a-z0-9][a-z0-9_-]{0,62}$/.test(value),
  },
};

export function operateInstallation(database: Database): InstallationOperator {
  return {
    get: () => readIdentity(database),
    init: async (identity) => {
      throwProblems('configuration', 'an installation', optionProblems(identity, identityShape));
      try {
        return await initInstallation(database, identity);
      } catch (error) {
        if (sqlState(error) !== '55000') throw error;
        throw new PgQueueError(
          'configuration',
          `${error instanceof Error ? error.message : String(error)}: keep the number; only an installation without jobs of its own can get another one`,
          { cause: error },
        );
      }
    },
  };
}
