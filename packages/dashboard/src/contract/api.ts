/** A time in ISO 8601, UTC, with milliseconds: `2026-11-21T18:00:00.000Z`. */
export type Time = string;

/** A bigint as text. */
export type BigIntText = string;

/** Error code, for programs. */
export type ApiErrorCode =
  /** 400: parameters or body violate the contract; `problems` lists all violations. */
  | 'bad_request'
  /** 401: the auth hook does not know the user. */
  | 'unauthenticated'
  /** 403: the action needs the role operator, or the database's role lacks a right. */
  | 'forbidden'
  /** 403: the CSRF token is missing or belongs to another session. Read the session again and repeat once. */
  | 'csrf'
  /** 403: the action comes from another site. */
  | 'origin'
  /** 403: the dashboard does not answer to this host name, or needs an auth hook for this address. */
  | 'host'
  /** 404. */
  | 'not_found'
  /** 405: the address does not support this method. */
  | 'method'
  /** 409: it has changed in the meantime, or is in the requested state already. */
  | 'conflict'
  /** 413: the body is too large. */
  | 'too_large'
  /** 415: the content type is not JSON in UTF-8. */
  | 'media_type'
  /** 422, of the HTTP API: the idempotency key belongs to another request. */
  | 'idempotency_key'
  /** 503, with `retry-after`: too many requests use the database. */
  | 'busy'
  /** 504: the database exceeded the time limit for a page. */
  | 'timeout'
  /** 503: the database cannot be reached, or has no schema that this dashboard works with. */
  | 'database'
  /** 500: an internal error; details are in the log. */
  | 'internal';

/** Body of every answer that is not 2xx. */
export interface ApiError {
  readonly error: {
    readonly code: ApiErrorCode;
    /** Explanation for people, with what to do about it. */
    readonly message: string;
    /** All problems of a request; null: the error is not about its parts. */
    readonly problems: readonly string[] | null;
  };
}

/** Rights of a user. A viewer reads; an operator may also change things and see payloads. */
export type Role = 'viewer' | 'operator';

/** The current user and installation. */
export interface Session {
  readonly actor: { readonly name: string; readonly role: Role };
  /** Value for the header `x-pgqueue-csrf` of every POST. */
  readonly csrf: string;
  /** Schema of the installation. */
  readonly schema: string;
  readonly schemaVersion: number;
  /** Version of this package. */
  readonly version: string;
  /** This user (an operator) sees payloads, results and the rest of {@link JobDocuments}. */
  readonly seesPayloads: boolean;
  /** Time by the database's clock. */
  readonly now: Time;
}

/** One page of a list. `next` is the `after` of the next page; null: this is the last. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

/** Selects a page. */
export interface PageQuery {
  /** `next` of the previous page. */
  readonly after?: string;
  /** 1 to 200. Default 50. */
  readonly limit?: number;
}

/** Query of GET /api/queues, /api/nodes and /api/schedules, which answer with up to 500. */
export interface NameQuery {
  /** Only those whose names contain it, in any case. */
  readonly name?: string;
}

/** A count that may have stopped early: large tables are not counted to the end. */
export interface Count {
  readonly count: number;
  /**
   * `exact`: show `1000`. `at_least`: counting stopped here, show `1000+`. `about`: an estimate, show
   * `≈ 1000`.
   */
  readonly kind: 'exact' | 'at_least' | 'about';
}

/** The last hour in buckets of a minute, or the last day in buckets of 15 minutes. */
export type Window = 'hour' | 'day';

/** State of a job. */
export type JobStatus =
  | 'delayed'
  | 'pending'
  | 'ready'
  | 'running'
  | 'done'
  | 'cancelled'
  | 'expired'
  | 'dead';

/** A rate: in any window of w seconds at most `perSecond` × w + `burst` jobs. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Quantiles of waits or runs, to within 12 %; null: no data. */
export interface Quantiles {
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
}

/** Any JSON value. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };
