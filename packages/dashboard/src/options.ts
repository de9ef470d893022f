import type { Logger } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
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
} from '@pgqueue/core/internal';
import type { DatabaseOptions } from '@pgqueue/postgres';
import { databaseShape } from '@pgqueue/postgres/internal';
import type { Role } from './contract.ts';

/** User of a request, as returned by the auth hook. */
export interface User {
  /** Name in the audit table, 1 to 200 characters. */
  readonly name: string;
  readonly role: Role;
}

/**
 * Identifies the user of a request, by a session cookie, a header set by a trusted proxy, or anything else
 * your application has. Returns nothing for an unknown user (401), or a response to send instead, such as a
 * redirect to a login page. It is called for every request, including files and events. An error it throws
 * becomes a 500.
 */
export type Auth = (
  request: Request,
) => User | Response | null | undefined | Promise<User | Response | null | undefined>;

/**
 * A document of a job that is about to be shown. The value of a flow's signal is one, too: its `id` and `key` are
 * the flow's, its `task` is the name of the step, and its `queue` is empty.
 */
export interface Shown {
  readonly kind: 'payload' | 'result' | 'checkpoint' | 'progress' | 'signal';
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly key: string;
}

/** Returns what to show instead of a document, as plain JSON. If it throws, the whole document is hidden. */
export type Redact = (document: unknown, shown: Shown) => unknown;

/** Database roles that requests run as. */
export interface DatabaseRoles {
  readonly viewer: string;
  readonly operator: string;
}

/** See {@link createDashboard}. */
export interface DashboardOptions extends Pick<DatabaseOptions, 'connectionString' | 'pool' | 'schema'> {
  /** Identifies users. Without it, the dashboard answers on loopback only, and every user is an operator. */
  readonly auth?: Auth;
  /**
   * Requests run as these database roles (SET LOCAL ROLE); the connection's user must be a member of both.
   * `false`: requests run as the connection's user. Default: with an auth hook `<schema>_viewer` and
   * `<schema>_operator`, which `pgqueue migrate --roles` creates; without one, `false`.
   */
  readonly databaseRoles?: DatabaseRoles | false;
  readonly redact?: Redact;
  /** Path the dashboard is mounted at, such as `/admin/queue`. Default: the root. */
  readonly basePath?: string;
  /**
   * Host names that the dashboard answers to, with a port unless it is the usual one. Other names are
   * refused, so that a foreign name cannot be pointed at the dashboard (DNS rebinding). Default: every name
   * with an auth hook; loopback names without one.
   */
  readonly hosts?: readonly string[];
  /**
   * Address of a trace, http or https, with `{traceId}` in it:
   * `https://grafana.example/explore?trace={traceId}`.
   */
  readonly traceUrl?: string;
  /**
   * Secret for CSRF tokens, at least 32 characters. Processes that serve one address must share it. Default:
   * random for each process.
   */
  readonly csrfSecret?: string;
  readonly logger?: Logger;
  /** Time limit for a page's statement, in milliseconds; a slower one is cancelled. Default 5000. */
  readonly statementTimeoutMs?: number;
  /**
   * Interval of reads for the live view while a client is connected, in milliseconds. The reads take at most
   * 0.6 % of the database's time. Default 2500.
   */
  readonly liveEveryMs?: number;
  /** Concurrent requests that use the database. Up to 64 more wait. Default 4. */
  readonly concurrency?: number;
}

/** Options with defaults applied. */
export interface Settings {
  readonly auth: Auth | undefined;
  readonly databaseRoles: DatabaseRoles | undefined;
  readonly redact: Redact | undefined;
  /** Without a slash at the end: `` or `/admin/queue`. */
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

/**
 * Checks the options and applies defaults.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
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
