import type { Codec, Logger, Task, TaskHandler } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aCodec,
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aText,
  either,
  isTask,
  isTaskHandler,
  optional,
  optionProblems,
  repeated,
  throwProblems,
} from '@pgqueue/core/internal';
import type { DatabaseOptions } from '@pgqueue/postgres';
import type { Installation } from '@pgqueue/postgres/internal';
import { databaseShape, installationsProblems } from '@pgqueue/postgres/internal';
import type { Role } from './contract.ts';

/** Rights of a user: those of the pages, or `producer`, who uses the HTTP API and sees no page. */
export type UserRole = Role | 'producer';

export function isUserRole(value: unknown): value is UserRole {
  return value === 'viewer' || value === 'operator' || value === 'producer';
}

/** User of a request, as returned by the auth hook. */
export interface User {
  /** Name in the audit table, 1 to 200 characters. */
  readonly name: string;
  readonly role: UserRole;
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
  /** Role for all requests of the HTTP API. Default `<schema>_producer`. */
  readonly producer?: string;
}

/** Options of the HTTP API, through which programs without a database connection enqueue, read results and signal. */
export interface ApiOptions {
  /**
   * Tasks, or their handlers, whose jobs the API takes: it refuses others. Their schemas check payloads, and their
   * defaults apply. Default: jobs of any task, by name; then only the worker checks payloads.
   */
  // oxlint-disable-next-line typescript/no-explicit-any -- tasks of different payloads fit into one list
  readonly tasks?: readonly (Task<any, any, any, any> | TaskHandler)[];
  /** Concurrent requests for results; others get a 503. Default 500. */
  readonly waitsMax?: number;
  /**
   * Hears by LISTEN of jobs that have ended, on one connection of its own, which is open while somebody waits. False:
   * waits poll, as with a `pool` alone, for PgBouncer in transaction mode. Default true.
   */
  readonly listen?: boolean;
}

/** See {@link createDashboard}. */
export interface DashboardOptions extends Pick<DatabaseOptions, 'connectionString' | 'pool' | 'schema'> {
  /**
   * Several installations instead of one, as a router takes them: one page over all, and the pages of each below
   * `/i/NAME`. Then leave out `connectionString`, `pool` and `schema`.
   */
  readonly installations?: readonly Installation[];
  /** Identifies users. Without it, the dashboard answers on loopback only, and every user is an operator. */
  readonly auth?: Auth;
  /**
   * Requests run as these database roles (SET LOCAL ROLE); the connection's user must be a member of both.
   * `false`: requests run as the connection's user. Default: with an auth hook `<schema>_viewer` and
   * `<schema>_operator`, which `pgqueue migrate --roles` creates; without one, `false`.
   */
  readonly databaseRoles?: DatabaseRoles | false;
  /** Serves the HTTP API for programs below `/api/v1`, to users with the role `producer` or `operator`. Default false. */
  readonly api?: boolean | ApiOptions;
  readonly redact?: Redact;
  /**
   * Decrypts what operators see, and encrypts the values of signals that they give: what `encrypted` returns. `redact` gets the
   * decrypted document. Without it, and for viewers, the id of the key is shown instead. Default: none.
   */
  readonly codec?: Codec;
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

/** Options of the HTTP API with defaults applied. */
export interface ApiSettings {
  /** Tasks by name; undefined: any. */
  readonly tasks: ReadonlyMap<string, Task> | undefined;
  readonly waitsMax: number;
  readonly listen: boolean;
}

/** Identity that the database of an installation must have. */
export interface OwnIdentity {
  readonly number: number;
  readonly name: string;
  /** It is the only one of the list: it may have no number. */
  readonly alone: boolean;
}

/** Options with defaults applied. */
export interface Settings {
  /** Undefined: the options name no installations. */
  readonly installation: OwnIdentity | undefined;
  readonly auth: Auth | undefined;
  readonly databaseRoles: Required<DatabaseRoles> | undefined;
  readonly api: ApiSettings | undefined;
  readonly redact: Redact | undefined;
  readonly codec: Codec | undefined;
  /** Path at which the dashboard is mounted, without a slash at the end: `` or `/admin/queue`. */
  readonly mountPath: string;
  /** The same, with the path of the installation among several: `/admin/queue/i/eu-1`. */
  readonly basePath: string;
  readonly hosts: readonly string[] | undefined;
  readonly traceUrl: string | undefined;
  readonly csrfSecret: string | undefined;
  readonly logger: Logger | undefined;
  readonly statementTimeoutMs: number;
  readonly liveEveryMs: number;
  readonly concurrency: number;
}

const roles: Shape<DatabaseRoles> = {
  viewer: aText({ max: 63 }),
  operator: aText({ max: 63 }),
  producer: optional(aText({ max: 63 })),
};

const aTaskOrHandler: Rule = {
  expected: 'a task, made by defineTask, or what implement(task, handler) returns',
  judge: (value) => isTask(value) || isTaskHandler(value),
};

const apiShape: Shape<ApiOptions> = {
  tasks: optional(aListOf(aTaskOrHandler, 'a list of tasks')),
  waitsMax: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  listen: optional(aFlag),
};

const shape: Shape<DashboardOptions> = {
  connectionString: databaseShape.connectionString,
  pool: databaseShape.pool,
  schema: databaseShape.schema,
  installations: optional(anything),
  auth: optional(aFunction),
  databaseRoles: optional(either({ expected: 'false', judge: (value) => value === false }, anObject(roles))),
  api: optional(either(aFlag, anObject(apiShape))),
  redact: optional(aFunction),
  codec: optional(aCodec),
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
  const problems = optionProblems(options, shape);
  throwProblems(
    'configuration',
    'the dashboard',
    problems.length > 0 ? problems : [...twiceIn(options.api), ...severalProblems(options)],
  );
  const { auth, databaseRoles, schema = 'pgqueue', basePath = '', hosts } = options;
  const mountPath = basePath.replace(/\/$/, '');
  return {
    installation: undefined,
    auth,
    databaseRoles: rolesOf({ auth, databaseRoles, schema }),
    api: settleApi(options.api),
    redact: options.redact,
    codec: options.codec,
    mountPath,
    basePath: mountPath,
    hosts: hosts?.map((host) => host.toLowerCase()),
    traceUrl: options.traceUrl,
    csrfSecret: options.csrfSecret,
    logger: options.logger,
    statementTimeoutMs: options.statementTimeoutMs ?? 5_000,
    liveEveryMs: options.liveEveryMs ?? 2_500,
    concurrency: options.concurrency ?? 4,
  };
}

/** Returns the settings of one of several installations. @param settings those of the whole dashboard */
export function settleOwn(
  settings: Settings,
  { databaseRoles, installations }: DashboardOptions,
  { number, name, schema = 'pgqueue' }: Installation,
): Settings {
  const { auth, mountPath } = settings;
  return {
    ...settings,
    installation: { number, name, alone: installations?.length === 1 },
    databaseRoles: rolesOf({ auth, databaseRoles, schema }),
    basePath: `${mountPath}/i/${name}`,
  };
}

/** Options on which the roles depend. */
interface RolesGiven {
  readonly auth: Auth | undefined;
  readonly databaseRoles: DashboardOptions['databaseRoles'] | undefined;
  readonly schema: string;
}

function rolesOf({ auth, databaseRoles, schema }: RolesGiven): Settings['databaseRoles'] {
  if (databaseRoles === false || (databaseRoles === undefined && auth === undefined)) return undefined;
  const standard = {
    viewer: `${schema}_viewer`,
    operator: `${schema}_operator`,
    producer: `${schema}_producer`,
  };
  return { ...standard, ...databaseRoles };
}

function severalProblems(options: DashboardOptions): readonly string[] {
  if (options.installations === undefined) return [];
  const beside = (['connectionString', 'pool', 'schema'] as const).filter(
    (name) => options[name] !== undefined,
  );
  return [
    ...installationsProblems(options.installations),
    ...beside.map((name) => `${name} must be left out beside installations, which have their own`),
  ];
}

function settleApi(api: DashboardOptions['api'] = false): ApiSettings | undefined {
  if (api === false) return undefined;
  const { waitsMax = 500, listen = true } = api === true ? {} : api;
  const tasks = tasksOf(api);
  return { tasks: tasks && new Map(tasks.map((task) => [task.name, task])), waitsMax, listen };
}

function tasksOf(api: DashboardOptions['api']): readonly Task[] | undefined {
  if (typeof api !== 'object') return undefined;
  return api.tasks?.map((given): Task => (isTaskHandler(given) ? given.task : given));
}

function twiceIn(api: DashboardOptions['api']): readonly string[] {
  const twice = repeated((tasksOf(api) ?? []).map(({ name }) => name));
  return twice.length === 0 ? [] : [`api.tasks has two tasks named ${twice.join(', ')}`];
}
