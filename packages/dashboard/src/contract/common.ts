/** A time: ISO 8601, UTC, with milliseconds: `2026-11-21T18:00:00.000Z`. */
export type Time = string;

/** A bigint as text. */
export type BigIntText = string;

/** What went wrong, for programs. */
export type ApiErrorCode =
  /** 400: parameters or body are not what the contract says; `problems` has all of them. */
  | 'bad_request'
  /** 401: the auth hook knows nobody. */
  | 'unauthenticated'
  /** 403: the role is viewer, and this wants operator; or the database's role may not do it. */
  | 'forbidden'
  /** 403: the CSRF token is missing or of another session: ask for the session anew, repeat once. */
  | 'csrf'
  /** 403: an action that comes from another site. */
  | 'origin'
  /** 403: a host name that this dashboard does not answer to, or an address that isn't loopback without an auth hook. */
  | 'host'
  /** 404. */
  | 'not_found'
  /** 405: another method. */
  | 'method'
  /** 409: it has changed meanwhile, or is what was asked for already. */
  | 'conflict'
  /** 413: the body is too large. */
  | 'too_large'
  /** 415: the body is no JSON. */
  | 'media_type'
  /** 503, with `retry-after`: too many expensive reads at once. */
  | 'busy'
  /** 504: the database took longer than a page may. */
  | 'timeout'
  /** 503: the database can't be reached, or has no schema that this dashboard can work with. */
  | 'database'
  /** 500: a fault of ours; the log has it. */
  | 'internal';

/** The body of every answer that is not 2xx. */
export interface ApiError {
  readonly error: {
    readonly code: ApiErrorCode;
    /** What to do about it, in plain words. */
    readonly message: string;
    /** All that is wrong with a request; null: it is not about its parts. */
    readonly problems: readonly string[] | null;
  };
}

/** What this user may do: look; or change things, too, and see payloads. */
export type Role = 'viewer' | 'operator';

/** Who looks, at what. */
export interface Session {
  readonly actor: { readonly name: string; readonly role: Role };
  /** For the header `x-pgqueue-csrf` of every POST. */
  readonly csrf: string;
  /** The installation. */
  readonly schema: string;
  readonly schemaVersion: number;
  /** Of this package. */
  readonly version: string;
  /** Whether payloads, results and the rest of {@link JobDocuments} are shown to this user (operators only). */
  readonly seesPayloads: boolean;
  /** Whether a hook of the operator's making changes payloads before they are shown. */
  readonly redacts: boolean;
  /** The database's clock. */
  readonly now: Time;
}

/** One page. `next` is what to give as `after` for the next one; null: this was the last. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

/** Which page. */
export interface PageQuery {
  /** The `next` of the page before. */
  readonly after?: string;
  /** 1 to 200. Default 50. */
  readonly limit?: number;
}

/** A count that stops: large tables are not counted to the end. */
export interface Count {
  readonly count: number;
  /** `exact`: show `1000`; `at_least`: it was counted so far and no further, show `1000+`; `about`: an estimate, show `≈ 1000`. */
  readonly kind: 'exact' | 'at_least' | 'about';
}

/** The last hour by minutes, or the last day by quarters of an hour. */
export type Window = 'hour' | 'day';

/** Where a job stands. */
export type JobStatus =
  | 'delayed'
  | 'pending'
  | 'ready'
  | 'running'
  | 'done'
  | 'cancelled'
  | 'expired'
  | 'dead';

/** A rate: over any window of w seconds at most `perSecond` × w + `burst`. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Quantiles of waits or runs, to within 12 %; null: there was nothing. */
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
