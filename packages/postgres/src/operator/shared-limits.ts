import { PgQueueError } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { aNumber, aText, optionProblems, throwProblems, valueProblems } from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';
import { sqlState } from '../connection/pg-errors.ts';
import type { SharedLimit } from '../calls/installation/shared-limits.ts';
import { forfeitPart, readSharedLimits, removeLimit } from '../calls/installation/shared-limits.ts';

/** Part of an installation in a shared limit. */
export interface PartOf {
  /** Name of the limit. */
  readonly limit: string;
  /** Number of the installation. */
  readonly installation: number;
}

/** Limits over several installations that have their home in this one. */
export interface SharedLimitsOperator {
  readonly list: () => Promise<readonly SharedLimit[]>;
  /**
   * Gives the part of an installation back to the others, because it is gone: nothing of the limit runs there, and its
   * schedulers are stopped. Resolves to what was reserved for it. If it comes back, its jobs in flight count first.
   * @throws {PgQueueError} `not_found`; `configuration`: it has leased its part less than a minute ago
   */
  readonly forfeit: (part: PartOf) => Promise<{ readonly reserved: number }>;
  /**
   * Removes a limit that no policy uses any more, so that it may get another home or kind.
   * @throws {PgQueueError} `not_found`; `configuration`: it was leased less than a minute ago
   */
  readonly remove: (limit: string) => Promise<void>;
}

/** Rule for the name of a shared limit. */
export const aLimitName: Rule = aText({ max: 100 });

const partShape: Shape<PartOf> = {
  limit: aLimitName,
  installation: aNumber({ min: 0, max: 1_023, whole: true }),
};

export function operateSharedLimits(database: Database): SharedLimitsOperator {
  return {
    list: () => readSharedLimits(database),
    forfeit: async (given) => {
      throwProblems('configuration', 'a part', optionProblems(given, partShape));
      const { limit, installation } = given;
      return { reserved: await refusing(() => forfeitPart(database, limit, installation)) };
    },
    remove: async (limit) => {
      throwProblems('configuration', 'a shared limit', valueProblems(aLimitName, limit, 'the name'));
      await refusing(() => removeLimit(database, limit));
    },
  };
}

/** Runs a change, and says in the refusal of its SQL function what to do. */
async function refusing<Result>(change: () => Promise<Result>): Promise<Result> {
  try {
    return await change();
  } catch (error) {
    const state = sqlState(error);
    if (state === 'P0002') throw new PgQueueError('not_found', textOf(error), { cause: error });
    if (state === '55000') throw new PgQueueError('configuration', textOf(error), { cause: error });
    throw error;
  }
}

/** Message and hint of an error that a SQL function has raised. */
export function textOf(error: unknown): string {
  const { message, hint } = error as { readonly message: string; readonly hint?: string };
  return hint === undefined ? message : `${message}. ${hint}`;
}
