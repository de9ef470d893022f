import type { Shape } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aNumber,
  anything,
  optional,
  optionProblems,
  PgQueueError,
  throwProblems,
} from '@pgqueue/core';
import type { Database } from '../connection/database.ts';
import type { DeadFilter, DeadJob, DeadListOptions } from '../reads/dead.ts';
import { countDead, listDead, nextDead } from '../reads/dead.ts';
import type { Page } from '../reads/page.ts';
import { redrive } from '../statements/operate.ts';
import { checkIds } from './jobs.ts';
import { wakeSchedulers } from './wake.ts';

/** Which dead jobs: those of the ids, those that a filter finds, or all. */
export type DeadSelection =
  | { readonly ids: readonly string[] }
  | (DeadFilter & {
      /** Must be said where no filter is. */
      readonly all?: boolean;
    });

/** How far a bulk redrive or purge has come. */
export interface DeadProgress {
  /** Looked at so far. */
  readonly seen: number;
  /** Redriven or purged so far. */
  readonly done: number;
  readonly total: number;
}

/** How to work through many dead jobs. */
export interface BulkOptions {
  /** After each chunk, which is committed by then: what is stopped can be repeated. */
  readonly onProgress?: (progress: DeadProgress) => void;
  /** Jobs in one transaction. Default 500. */
  readonly chunk?: number;
}

/** What became of the dead jobs that were selected. */
export interface BulkResult {
  readonly total: number;
  readonly done: number;
  /** Not dead (any more), or their unique key is taken by a newer job. */
  readonly skipped: number;
}

/** What an operator can do with dead jobs. */
export interface DeadOperator {
  /** Those that died last come first, in pages. */
  readonly list: (options?: DeadListOptions) => Promise<Page<DeadJob>>;
  /**
   * Puts dead jobs back into QUEUE with fresh limits, those that died first first. Jobs that die while it works are not
   * meant: one that fails again at once does not keep it going.
   */
  readonly redrive: (selection: DeadSelection, options?: BulkOptions) => Promise<BulkResult>;
  /** Removes dead jobs without a trace. */
  readonly purge: (selection: DeadSelection, options?: BulkOptions) => Promise<BulkResult>;
}

const filterShape: Shape<DeadFilter> = {
  queue: optional(anything),
  task: optional(anything),
  reason: optional(anything),
  olderThanMs: optional(aNumber({ min: 0 })),
};

const selectionShape = { ids: optional(anything), ...filterShape, all: optional(aFlag) };

const bulkShape: Shape<BulkOptions> = {
  onProgress: optional(aFunction),
  chunk: optional(aNumber({ min: 1, max: 10_000, whole: true })),
};

const listShape: Shape<DeadListOptions> = {
  ...filterShape,
  after: optional(anything),
  limit: optional(anything),
};

/** A filter that is misspelt finds all there are: a purge of one task would be one of every task. */
function checkBulk(selection: DeadSelection, options: BulkOptions = {}): void {
  throwProblems('configuration', 'dead jobs', [
    ...optionProblems(selection, selectionShape),
    ...optionProblems(options, bulkShape),
  ]);
}

export function operateDead(database: Database): DeadOperator {
  return {
    list: async (options = {}) => {
      throwProblems('configuration', 'dead jobs', optionProblems(options, listShape));
      return listDead(database, options);
    },
    redrive: async (selection, options) => {
      checkBulk(selection, options);
      const result = await inBulk(database, selection, {
        ...options,
        work: async (ids) => (await redrive(database, ids)).size,
      });
      if (result.done > 0) await wakeSchedulers(database);
      return result;
    },
    purge: async (selection, options) => {
      checkBulk(selection, options);
      return inBulk(database, selection, { ...options, work: (ids) => purge(database, ids) });
    },
  };
}

/** From DEAD_LETTER alone: a job that was redriven a moment ago is not meant any more. */
async function purge(database: Database, ids: readonly string[]): Promise<number> {
  const rows = await database.query(
    `delete from ${database.schema}.dead_letter where id = any ($1::uuid[]) returning 1`,
    [ids],
  );
  return rows.length;
}

async function inBulk(
  database: Database,
  selection: DeadSelection,
  { work, onProgress, chunk = 500 }: BulkOptions & { work: (ids: readonly string[]) => Promise<number> },
): Promise<BulkResult> {
  if ('ids' in selection) checkIds(selection.ids);
  else checkFilter(selection);
  const { total, next } = await pages(database, selection, chunk);
  let done = 0;
  let seen = 0;
  for (let ids = await next(); ids.length > 0; ids = await next()) {
    done += await work(ids);
    seen += ids.length;
    onProgress?.({ seen, done, total });
  }
  return { total, done, skipped: seen - done };
}

interface Pages {
  readonly total: number;
  /** The next ids; empty at the end. */
  readonly next: () => Promise<readonly string[]>;
}

async function pages(database: Database, selection: DeadSelection, max: number): Promise<Pages> {
  if ('ids' in selection) {
    const { ids } = selection;
    let from = 0;
    return {
      total: ids.length,
      next: () => Promise.resolve(ids.slice(from, (from += max))),
    };
  }
  const { total, upToUs } = await countDead(database, selection);
  let after: string | null = null;
  return {
    total,
    next: async () => {
      const page = await nextDead(database, selection, { after, upToUs, max });
      after = page.after;
      return page.ids;
    },
  };
}

function checkFilter({ queue, task, reason, olderThanMs, all }: DeadFilter & { all?: boolean }): void {
  const given = [queue, task, reason, olderThanMs].some((part) => part !== undefined);
  if (given || all === true) return;
  throw new PgQueueError(
    'configuration',
    'say which dead jobs are meant: ids, a queue, a task, a reason, or all',
  );
}
