import type { Codec } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aNumber,
  anything,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import { openedDead } from '../codec/opened-jobs.ts';
import { rewrapDead } from '../codec/rewrap.ts';
import type { Database } from '../connection/database.ts';
import type { DeadFilter, DeadJob, DeadListOptions } from '../reads/dead.ts';
import { countDead, listDead, nextDead } from '../reads/dead.ts';
import type { Page } from '../reads/page.ts';
import { redrive } from '../calls/operate.ts';
import { toIds } from './jobs.ts';
import { wakeSchedulers } from '../hints/wake.ts';

/** A selection of dead jobs: by ids, by a filter, or all. */
export type DeadSelection =
  | { readonly ids: readonly string[] }
  | (DeadFilter & {
      /** Required if there is no filter. */
      readonly all?: boolean;
    });

/** Progress of a bulk redrive or purge. */
export interface DeadProgress {
  /** Jobs read so far. */
  readonly seen: number;
  /** Jobs redriven or purged so far. */
  readonly done: number;
  readonly total: number;
}

/** Options of a bulk redrive or purge. */
export interface BulkOptions {
  /** Called after each chunk, which is committed by then: stopped work can be repeated. */
  readonly onProgress?: (progress: DeadProgress) => void;
  /** Jobs in one transaction. Default 500. */
  readonly chunk?: number;
}

/** Outcome of a bulk redrive or purge. */
export interface BulkResult {
  readonly total: number;
  readonly done: number;
  /** Jobs that are not dead (any more), or whose unique key a newer job has taken. */
  readonly skipped: number;
}

/** Outcome of a rewrap. */
export interface RewrapResult {
  readonly total: number;
  /** Jobs that were encrypted under the first key. */
  readonly done: number;
  /** Jobs that were under it already. */
  readonly current: number;
  /** Jobs that could not be decrypted, and are as they were: their key is missing, they were changed, or they are plain, and the codec refuses that. */
  readonly unreadable: number;
  /** Reasons of the first ten of those. */
  readonly problems: readonly string[];
}

const toldMax = 10;

/** Operations on dead jobs. */
export interface DeadOperator {
  /** Lists dead jobs in pages, the latest death first. */
  readonly list: (options?: DeadListOptions) => Promise<Page<DeadJob>>;
  /**
   * Puts dead jobs back into their queues with fresh limits, the earliest death first. Jobs that die meanwhile are
   * not included, so a job that fails again at once does not keep the work going.
   */
  readonly redrive: (selection: DeadSelection, options?: BulkOptions) => Promise<BulkResult>;
  /** Removes dead jobs without a trace. */
  readonly purge: (selection: DeadSelection, options?: BulkOptions) => Promise<BulkResult>;
  /**
   * Encrypts dead jobs under the first key of the operator's codec: then the older keys are not needed for them any more. Plain
   * payloads and checkpoints are encrypted, too, if the codec has `plain: 'accept'`, and plain errors if it has `errors: true`, too;
   * with `refuse` such a payload or checkpoint is unreadable, and such an error stays. Works in chunks; what is interrupted can be
   * repeated.
   * @throws {PgQueueError} `configuration`: the operator has no codec
   */
  readonly rewrap: (selection: DeadSelection, options?: BulkOptions) => Promise<RewrapResult>;
}

const filterShape: Shape<DeadFilter> = {
  queue: optional(anything),
  task: optional(anything),
  reason: optional(anything),
  olderThanMs: optional(aNumber({ min: 0 })),
  newerThanMs: optional(aNumber({ min: 0 })),
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

/**
 * Checks the names of filters and options. A misspelt filter would match every dead job: a purge of one task
 * would purge all tasks.
 */
function checkBulk(selection: DeadSelection, options: BulkOptions = {}): void {
  throwProblems('configuration', 'dead jobs', [
    ...optionProblems(selection, selectionShape),
    ...optionProblems(options, bulkShape),
  ]);
}

export function operateDead(database: Database, codec?: Codec): DeadOperator {
  return {
    list: async (options = {}) => {
      throwProblems('configuration', 'dead jobs', optionProblems(options, listShape));
      const page = await listDead(database, options);
      return { ...page, items: page.items.map((job) => openedDead(codec, job)) };
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
    rewrap: async (selection, options) => {
      checkBulk(selection, options);
      if (codec === undefined) throw noCodec();
      return rewrapInBulk(database, codec, { selection, options });
    },
  };
}

function noCodec(): PgQueueError {
  return new PgQueueError(
    'configuration',
    'dead.rewrap: this operator has no codec, and so no keys: give it one',
  );
}

async function rewrapInBulk(
  database: Database,
  codec: Codec,
  { selection, options }: { readonly selection: DeadSelection; readonly options: BulkOptions | undefined },
): Promise<RewrapResult> {
  let current = 0;
  let unreadable = 0;
  const problems: string[] = [];
  const { total, done } = await inBulk(database, selection, {
    ...options,
    work: async (ids) => {
      const slice = await rewrapDead(database, codec, ids);
      current += slice.current;
      unreadable += slice.unreadable.length;
      for (const { why } of slice.unreadable) if (problems.length < toldMax) problems.push(why);
      return slice.done;
    },
  });
  return { total, done, current, unreadable, problems };
}

/** Deletes from DEAD_LETTER alone: a job that was redriven a moment ago is kept. */
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
  if ('ids' in selection) toIds(selection.ids);
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
  /** Returns the next ids; empty at the end. */
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
  const span = await countDead(database, selection);
  let after: string | null = null;
  return {
    total: span.total,
    next: async () => {
      const page = await nextDead(database, selection, { after, span, max });
      after = page.after;
      return page.ids;
    },
  };
}

function checkFilter({ all, ...filter }: DeadFilter & { all?: boolean }): void {
  const given = Object.values(filter).some((part) => part !== undefined);
  if (given || all === true) return;
  throw new PgQueueError(
    'configuration',
    'say which dead jobs are meant: ids, a queue, a task, a reason, an age, or all',
  );
}
