import type { Count, PageQuery, Time } from './common.ts';

/** What shares are told of: `minutes`, the last five, is who gets what now; the last `hour`, who got what. */
export type ShareWindow = 'minutes' | 'hour';

/** Query of GET /api/keys. */
export interface KeysQuery extends PageQuery {
  /** Default `hour`. */
  readonly window?: ShareWindow;
  /** One queue only. */
  readonly queue?: string;
  /** One key only, by its whole name. */
  readonly key?: string;
}

/** One key of a queue: a tenant, a customer. */
export interface KeyRow {
  readonly queue: string;
  /** `''`: jobs without a key. */
  readonly key: string;
  /** Due jobs that wait (pending or ready). */
  readonly waiting: Count;
  readonly running: number;
  /** Age of the first of them in its line; null: none waits. */
  readonly oldestMs: number | null;
  /** Worker time within {@link Keys.seen}: of attempts that ended, and of those that run so far. */
  readonly busyMs: number;
  /** Its part (0 to 1) of all worker time of its pool, as far as it was seen. */
  readonly share: number;
  /**
   * What its weight would give it (0 to 1), among the keys of the pool that wait, run or ran: queues by their weights, keys of
   * a queue alike. A key that wants less than that gets less.
   */
  readonly fairShare: number;
  /** Of its queue. */
  readonly weight: number;
  /** What the fair order of the leader keeps for it (virtual time): the smaller, the sooner it is its turn; null: not known. */
  readonly virtualTime: number | null;
  /** Jobs that ended within {@link Keys.seen}. */
  readonly done: number;
}

/** Answer to GET /api/keys. */
export interface Keys {
  readonly at: Time;
  readonly window: ShareWindow;
  /** Shares come from the jobs that ended last: those since `from`, `jobs` of them (the window, or 10,000, whichever is less). */
  readonly seen: { readonly from: Time; readonly jobs: number };
  /** Keys that run or ran, by share, largest first, 100 at most. Only on the first page; else empty. */
  readonly active: readonly KeyRow[];
  /** Keys with waiting jobs, by queue and key. */
  readonly waiting: readonly KeyRow[];
  /** The `after` of the next page of `waiting`. */
  readonly next: string | null;
}
