import type { Count, PageQuery, Time } from './api.ts';

/**
 * Window of the shares: `minutes`, the last 5 minutes, shows the present distribution; `hour` the last hour.
 */
export type ShareWindow = 'minutes' | 'hour';

/** Query of GET /api/keys. */
export interface KeysQuery extends PageQuery {
  /** Default `hour`. */
  readonly window?: ShareWindow;
  /** Limits the answer to one queue. */
  readonly queue?: string;
  /** Limits the answer to one key, by its full name. */
  readonly key?: string;
}

/** One key of a queue: a tenant, a customer. */
export interface KeyRow {
  readonly queue: string;
  /** `''`: jobs without a key. */
  readonly key: string;
  /** Due jobs that wait (pending or ready), up to {@link Keys.countedUpTo}. */
  readonly waiting: Count;
  readonly running: number;
  /** Age of the first of them in its lane; null: none waits. */
  readonly oldestMs: number | null;
  /** Worker time within {@link Keys.seen}, of ended attempts and of running ones so far. */
  readonly busyMs: number;
  /** Share (0 to 1) of its pool's worker time that was seen. */
  readonly share: number;
  /**
   * Share (0 to 1) that its weight entitles it to, among the keys of the pool that wait, run or ran: by
   * weight between queues, equal between the keys of a queue. A key that needs less than that gets less. Null: more
   * than 500 keys of queues wait, too many to tell.
   */
  readonly fairShare: number | null;
  /** Weight of its queue. */
  readonly weight: number;
  /** Jobs that ended within {@link Keys.seen}. */
  readonly done: number;
}

/** Answer to GET /api/keys. */
export interface Keys {
  readonly at: Time;
  readonly window: ShareWindow;
  /**
   * Sample of the shares: the `jobs` jobs that ended last, since `from`. It covers the window or 10,000 jobs,
   * whichever is less.
   */
  readonly seen: { readonly from: Time; readonly jobs: number };
  /** Number of waiting jobs at which the count of one key stops. */
  readonly countedUpTo: number;
  /** The 100 keys with the largest shares that run or ran, largest first. Empty except on the first page. */
  readonly active: readonly KeyRow[];
  /** Keys with waiting jobs, by queue and key. A page may have none although others follow. */
  readonly waiting: readonly KeyRow[];
  /** `after` of the next page of `waiting`. */
  readonly next: string | null;
}
