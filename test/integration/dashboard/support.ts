import { randomUUID } from 'node:crypto';
import { createDashboard } from '@pgqueue/dashboard';
import type { ApiError, Dashboard, DashboardOptions, Role, Session, User } from '@pgqueue/dashboard';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import { createTestDatabase } from '../../support/database.ts';
import { dispatchAll } from '../../support/dispatch-all.ts';

export { until } from '../../support/until.ts';

const roles = ['producer', 'scheduler', 'worker', 'viewer', 'operator'] as const;

/** An installation in a schema of its own, whose roles belong to the whole server. */
export interface DashboardBench {
  readonly url: string;
  readonly schema: string;
  readonly database: Database;
  /** With an auth hook that takes `x-user: name:role`, closed with the bench. */
  readonly dashboard: (options?: Partial<DashboardOptions>) => Dashboard;
  readonly sql: <Row = Readonly<Record<string, unknown>>>(
    text: string,
    values?: readonly unknown[],
  ) => Promise<readonly Row[]>;
  /** Inserts jobs as plain SQL does; resolves to their ids, in order. */
  readonly insert: (job?: Insert, count?: number) => Promise<readonly string[]>;
  /** Schedules all pending jobs, and claims up to `max` of them as a node of this name. */
  readonly claim: (node: string, max: number) => Promise<readonly Claimed[]>;
  readonly close: () => Promise<void>;
}

export interface Claimed {
  readonly id: string;
  readonly token: string;
}

export interface Insert {
  readonly task?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly payload?: unknown;
  readonly priority?: number;
  readonly maxTries?: number;
  readonly trace?: unknown;
  /** Milliseconds from now. */
  readonly delayMs?: number;
}

export const byHeader = ({ headers }: Request): User | null => {
  const [name, role] = headers.get('x-user')?.split(':') ?? [];
  return name === undefined || role === undefined ? null : { name, role: role as Role };
};

export async function openDashboardBench(schema: string): Promise<DashboardBench> {
  const test = await createTestDatabase();
  await migrate({ connectionString: test.url, schema, roles: true });
  const database = openDatabase({ connectionString: test.url, schema, connectionsMax: 4 });
  const open: Dashboard[] = [];
  const incarnations = new Map<string, string>();
  const sql: DashboardBench['sql'] = (text, values = []) =>
    database.query(text.replaceAll('$schema', schema), values);
  return {
    url: test.url,
    schema,
    database,
    sql,
    dashboard: (options = {}) => {
      const made = createDashboard({ connectionString: test.url, schema, auth: byHeader, ...options });
      open.push(made);
      return made;
    },
    insert: async (job = {}, count = 1) => {
      const {
        task = 'hello',
        queue = 'default',
        key = '',
        payload = {},
        priority = 0,
        maxTries = 20,
        trace = null,
        delayMs,
      } = job;
      const rows = await sql<{ id: string }>(
        `insert into $schema.queue (task, queue, key, payload, priority, max_tries, trace, run_after)
         select $1, $2, $3, $4::jsonb, $5, $6, $7::jsonb, clock_timestamp() + $8::float8 * interval '1 ms' from generate_series(1, $9)
         returning id`,
        [
          task,
          queue,
          key,
          JSON.stringify(payload),
          priority,
          maxTries,
          trace === null ? null : JSON.stringify(trace),
          delayMs ?? null,
          count,
        ],
      );
      return rows.map(({ id }) => id);
    },
    claim: async (node, max) => {
      await dispatchAll(database);
      const incarnation = incarnations.get(node) ?? randomUUID();
      incarnations.set(node, incarnation);
      await sql(
        `select from $schema.register_node($1, '{"hello": {"min": 1, "max": 1, "timeoutMs": 60000}}', p_slots => 10, p_incarnation => $2)`,
        [node, incarnation],
      );
      return sql<Claimed>('select id, token from $schema.claim($1, $2::uuid, $3)', [node, incarnation, max]);
    },
    close: async () => {
      await Promise.all(open.map((one) => one.close()));
      await sql('drop schema $schema cascade');
      for (const role of roles) {
        await sql(`drop owned by $schema_${role}`);
        await sql(`drop role $schema_${role}`);
      }
      await database.close();
      await test.drop();
    },
  };
}

/** An answer of the dashboard. */
export interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
  readonly headers: Headers;
}

/** A client that acts as a browser: it keeps the cookie and sends the token. */
export interface Browser {
  readonly get: <Body = ApiError>(path: string) => Promise<Answer<Body>>;
  readonly post: <Body = ApiError>(
    path: string,
    body: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer<Body>>;
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>;
}

export const origin = 'https://queue.example';

export function browse(dashboard: Dashboard, user: string): Browser {
  let session: Promise<{ readonly cookie: string; readonly token: string }> | undefined;
  const fetch: Browser['fetch'] = (path, init = {}) =>
    dashboard.fetch(
      new Request(`${origin}${dashboard.basePath}${path}`, {
        ...init,
        headers: { 'x-user': user, host: 'queue.example', ...(init.headers as Record<string, string>) },
      }),
    );
  const read = async <Body>(response: Response): Promise<Answer<Body>> => ({
    status: response.status,
    body: (await response.json()) as Body,
    headers: response.headers,
  });
  const begin = async (): Promise<{ readonly cookie: string; readonly token: string }> => {
    const response = await fetch('/api/session');
    const { csrf } = (await response.json()) as Session;
    return { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '', token: csrf };
  };
  return {
    fetch,
    get: async (path) => read(await fetch(path)),
    post: async (path, body, headers = {}) => {
      session ??= begin();
      const { cookie, token } = await session;
      return read(
        await fetch(path, {
          method: 'POST',
          body: typeof body === 'string' ? body : JSON.stringify(body),
          headers: {
            'content-type': 'application/json',
            origin,
            cookie,
            'x-pgqueue-csrf': token,
            ...headers,
          },
        }),
      );
    },
  };
}
