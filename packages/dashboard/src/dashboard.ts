import type { DashboardOptions } from './options.ts';
import { settle } from './options.ts';
import { openSeveral } from './several/several.ts';
import { openSite } from './site.ts';

/** A dashboard, to be mounted in an HTTP server. */
export interface Dashboard {
  /**
   * Answers one request for a page, data or events. Errors become answers. Without an auth hook, `env` must
   * say where the request comes from: `{ remoteAddress }`, or what Hono's server for Node provides (`c.env`).
   * Anything else is ignored.
   */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /**
   * Connects and checks schema and roles. Call it before listening, or the first requests report problems. With
   * several installations, those that do not answer are left for later, unless none does.
   *
   * @throws {PgQueueError} `schema_version`, `configuration`
   */
  readonly check: () => Promise<void>;
  /** Path the dashboard is mounted at, without a slash at the end. */
  readonly basePath: string;
  /** An auth hook is set, so that the dashboard answers other machines, too. */
  readonly hasAuth: boolean;
  /**
   * Ends event streams, stops bulk actions after their current chunk, and closes connections. A pool that was
   * passed in stays open.
   */
  readonly close: () => Promise<void>;
}

/**
 * Creates a dashboard as a handler of web-standard requests: of one installation, or with `installations` of several.
 * It connects on the first request. Every read is bounded: none scans a whole table.
 *
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createDashboard(options: DashboardOptions): Dashboard {
  const settings = settle(options);
  const site =
    options.installations === undefined ? openSite(settings, options) : openSeveral(settings, options);
  return {
    fetch: (request, env) => site.fetch(request, { remoteAddress: remoteIn(env) }),
    check: site.check,
    basePath: settings.basePath,
    hasAuth: settings.auth !== undefined,
    close: site.close,
  };
}

function remoteIn(env: unknown): string | undefined {
  const { remoteAddress, incoming } = asRecord(env);
  const told = remoteAddress ?? asRecord(asRecord(incoming)['socket'])['remoteAddress'];
  return typeof told === 'string' ? told : undefined;
}

/** Returns an object unchanged, without copying: sockets have their properties on the prototype. */
function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
