import type { Logger, Shape } from '@pgqueue/core';
import {
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aText,
  either,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core';
import type { DatabaseOptions } from '@pgqueue/postgres';
import { databaseShape } from '@pgqueue/postgres';
import type { Role } from './contract.ts';

/** Who asks, as the auth hook says. */
export interface User {
  /** Stands in the audit table. 1 to 200 characters. */
  readonly name: string;
  readonly role: Role;
}

/**
 * Says who a request comes from: by a session's cookie, a header that a trusted proxy sets, whatever your application has. Nothing:
 * nobody (401). A response: that is answered instead, such as a redirect to a page for logging in. Called for every request, also for
 * files and events; what it throws is a 500.
 */
export type Auth = (
  request: Request,
) => User | Response | null | undefined | Promise<User | Response | null | undefined>;

/** A document of a job that is about to be shown. */
export interface Shown {
  readonly kind: 'payload' | 'result' | 'checkpoint' | 'progress';
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly key: string;
}

/** What to show instead of a document, as plain JSON. What it throws hides the whole document. */
export type Redact = (document: unknown, shown: Shown) => unknown;

/** Roles of the database that requests run as. */
export interface DatabaseRoles {
  readonly viewer: string;
  readonly operator: string;
}

/** See {@link createDashboard}. */
export interface DashboardOptions extends Pick<DatabaseOptions, 'connectionString' | 'pool' | 'schema'> {
  /**
   * Without it the dashboard answers on loopback alone, to whoever sits at that machine, who may do everything.
   */
  readonly auth?: Auth;
  /**
   * Requests run as these roles of the database (SET LOCAL ROLE), of which the connection's user must be a member; `false`: as that
   * user. Default: `<schema>_viewer` and `<schema>_operator`, as `pgqueue migrate --roles` makes them, where there is an auth hook.
   */
  readonly databaseRoles?: DatabaseRoles | false;
  readonly redact?: Redact;
  /** Where it is mounted: `/admin/queue`. Default: at the root. */
  readonly basePath?: string;
  /**
   * The host names that it answers to, with their port where that is not the usual one; others are refused, so that no foreign name can be
   * made to lead here. Default: every one with an auth hook; names of loopback without.
   */
  readonly hosts?: readonly string[];
  /** Where a trace is shown, http or https, with `{traceId}` in it: `https://grafana.example/explore?trace={traceId}`. */
  readonly traceUrl?: string;
  /** Give the same one to all processes that answer for one address; 32 characters or more. Default: one that ends with the process. */
  readonly csrfSecret?: string;
  readonly logger?: Logger;
  /** A page's statement that takes longer is cancelled. Default 5000. */
  readonly statementTimeoutMs?: number;
  /** How often the live view is read while anyone looks; at most a hundredth of the database's time goes into it. Default 2500. */
  readonly liveEveryMs?: number;
  /** Requests that read or change at the same time; others wait, 64 at most. Default 4. */
  readonly concurrency?: number;
}

/** Everything settled. */
export interface Settings {
  readonly auth: Auth | undefined;
  readonly databaseRoles: DatabaseRoles | undefined;
  readonly redact: Redact | undefined;
  /** Without a slash at its end: `` or `/admin/queue`. */
  readonly basePath: string;
  readonly hosts: readonly string[] | undefined;
  readonly traceUrl: string | undefined;
  readonly csrfSecret: string | undefined;
  readonly logger: Logger | undefined;
  readonly statementTimeoutMs: number;
  readonly liveEveryMs: number;
  readonly concurrency: number;
}

const roles: Shape<DatabaseRoles> = { viewer: aText({ max: 63 }), operator: aText({ max: 63 }) };

const shape: Shape<DashboardOptions> = {
  connectionString: databaseShape.connectionString,
  pool: databaseShape.pool,
  schema: databaseShape.schema,
  auth: optional(aFunction),
  databaseRoles: optional(either({ expected: 'false', judge: (value) => value === false }, anObject(roles))),
  redact: optional(aFunction),
  basePath: optional({
    expected: 'a path such as "/admin/queue", not ending in /api or /assets',
    judge: (value) =>
      typeof value === 'string' &&
      /^(?:\/[A-Za-z0-9._~-]+)*\/?$/.test(value) &&
      !/(?:^|\/)(?:\.\.?|api|assets)\/?$/.test(value),
  }),
  hosts: optional(aListOf(aText({ max: 255 }))),
  traceUrl: optional({
    expected: 'an address of http or https with {traceId} in it',
    judge: (value) =>
      typeof value === 'string' &&
      /^https?:\/\//.test(value) &&
      value.includes('{traceId}') &&
      URL.canParse(value),
  }),
  csrfSecret: optional(aText({ min: 32 })),
  logger: optional(anything),
  statementTimeoutMs: optional(aNumber({ min: 100, max: 600_000 })),
  liveEveryMs: optional(aNumber({ min: 100, max: 4_000 })),
  concurrency: optional(aNumber({ min: 1, max: 100, whole: true })),
};

/** @throws {PgQueueError} `configuration`, with all problems at once */
export function settle(options: DashboardOptions): Settings {
  throwProblems('configuration', 'the dashboard', optionProblems(options, shape));
  const { auth, databaseRoles, schema = 'pgqueue', basePath = '', hosts } = options;
  const standard = { viewer: `${schema}_viewer`, operator: `${schema}_operator` };
  return {
    auth,
    databaseRoles:
      databaseRoles === false ? undefined : (databaseRoles ?? (auth === undefined ? undefined : standard)),
    redact: options.redact,
    basePath: basePath.replace(/\/$/, ''),
    hosts: hosts?.map((host) => host.toLowerCase()),
    traceUrl: options.traceUrl,
    csrfSecret: options.csrfSecret,
    logger: options.logger,
    statementTimeoutMs: options.statementTimeoutMs ?? 5_000,
    liveEveryMs: options.liveEveryMs ?? 2_500,
    concurrency: options.concurrency ?? 4,
  };
}
