import { loggedError } from '@pgqueue/core/internal';
import type { Handler } from 'hono';
import { Hono } from 'hono';
import type { Actions } from './actions/actions.ts';
import { flowAction } from './actions/act-on-flow.ts';
import { jobsAction, nodeAction, queueAction, scheduleAction, undoAction } from './actions/actions.ts';
import type { BulkRuns } from './actions/bulk.ts';
import { bulkIn, previewOf } from './actions/bulk-chunks.ts';
import type { UndoStore } from './actions/undo.ts';
import { isApiPath } from './api/document.ts';
import { problemJson } from './api/problem-json.ts';
import type { ApiParts } from './api/routes.ts';
import { apiRoutes } from './api/routes.ts';
import type { Role } from './contract.ts';
import type { Desk, Office } from './desk.ts';
import type { Csrf } from './guard/csrf.ts';
import { checkApiOrigin } from './guard/csrf.ts';
import { renewalHeader } from './contract/renewal.ts';
import { dataPolicy, secure } from './guard/headers.ts';
import { checkRemote } from './guard/remote.ts';
import type { Turnstile } from './guard/turnstile.ts';
import { readBody } from './http/body.ts';
import type { Env, In } from './http/env.ts';
import { named } from './http/env.ts';
import type { Parameters } from './http/parameters.ts';
import { queryOf } from './http/parameters.ts';
import type { Answers } from './live/answers.ts';
import type { Hub } from './live/hub.ts';
import type { Settings, User } from './options.ts';
import { isUserRole } from './options.ts';
import { auditPage } from './pages/audit.ts';
import { deadGroupsPage, deadPage } from './pages/dead.ts';
import { explainPage } from './pages/explain.ts';
import { flowPage, flowsPage } from './pages/flow/flows.ts';
import { flowResults } from './pages/flow/results.ts';
import { doctorPage, healthPage } from './pages/health.ts';
import { jobPage } from './pages/job.ts';
import { jobsCount, jobsPage, nodeJobsPage } from './pages/jobs.ts';
import { keysPage } from './pages/keys.ts';
import { nodesPage } from './pages/nodes.ts';
import { overviewPage } from './pages/overview.ts';
import { policyPage } from './pages/policy.ts';
import { queuesPage } from './pages/queues.ts';
import { schedulesPage } from './pages/schedules.ts';
import { sessionPage } from './pages/session.ts';
import { Problem, problemOf, wrongMethod } from './problem.ts';
import type { StaticFiles } from './static-files.ts';

/** Components that the routes use. */
export interface Parts {
  readonly office: Office;
  readonly csrf: Csrf;
  /** Limits pages and actions; `slowly` admits one slow request at a time. */
  readonly turnstile: Turnstile;
  readonly slowly: Turnstile;
  readonly hub: Hub;
  readonly answers: Answers;
  readonly undo: UndoStore;
  readonly bulk: BulkRuns;
  readonly files: StaticFiles;
  /** Undefined: the HTTP API is off. */
  readonly api: ApiParts | undefined;
}

/** Creates the routes. Their paths are below the base path. */
export function createApp(parts: Parts): Hono<Env> {
  const { settings } = parts.office;
  const app = new Hono<Env>({ getPath: ({ url }) => ownPath(settings, new URL(url).pathname) });
  guard(app, { settings, csrf: parts.csrf });
  if (parts.api !== undefined) apiRoutes(app, parts.api);
  session(app, parts);
  live(app, parts);
  pages(app, parts);
  actions(app, parts);
  app.get('*', (c) => parts.files.file(c.req.path) ?? parts.files.page());
  app.all('*', (c) => {
    throw wrongMethod(/^\/api\/(?:actions|bulk)\b/.test(c.req.path) ? ['POST'] : ['GET', 'HEAD']);
  });
  return app;
}

/**
 * Removes the base path: first the part at which the dashboard is mounted, then that of an installation among several.
 */
function ownPath({ mountPath, basePath }: Settings, path: string): string {
  return pathBelow(basePath.slice(mountPath.length), pathBelow(mountPath, path));
}

/** Removes a base path; a framework that mounts at a path may have removed it already. */
export function pathBelow(basePath: string, path: string): string {
  if (basePath === '' || (path !== basePath && !path.startsWith(`${basePath}/`))) return path;
  return path.slice(basePath.length) || '/';
}

/** Lets in only what may come in, and adds the headers of every answer. */
export function guard(
  app: Hono<Env>,
  { settings, csrf }: { readonly settings: Settings; readonly csrf: Csrf },
): void {
  app.onError((error, c) => {
    const problem = problemOf(error);
    if (problem.code === 'internal' || problem.code === 'database') {
      settings.logger?.error(
        { error: loggedError(error), path: new URL(c.req.url).pathname },
        problem.message,
      );
    }
    const ofApi = isApiPath(c.req.path);
    const response = ofApi ? problemJson(error) : Response.json(problem.body(), { status: problem.status });
    for (const [name, value] of Object.entries(problem.headers)) response.headers.set(name, value);
    if (ofApi && response.status === 401) response.headers.set('www-authenticate', 'Bearer');
    secure(response.headers, dataPolicy);
    return response;
  });
  app.use(async (_, next) => {
    try {
      await next();
    } catch (error) {
      // hono answers errors only, and a hook of the application may throw anything
      throw error instanceof Error ? error : new Error('what was thrown is no Error', { cause: error });
    }
  });
  app.use(async (c, next) => {
    const { raw } = c.req;
    const host = raw.headers.get('host') ?? new URL(raw.url).host;
    checkRemote(settings, raw, { host, remoteAddress: c.env?.remoteAddress });
    const user = await userOf(settings.auth, raw);
    if (user instanceof Response) {
      if (isApiPath(c.req.path)) throw new Problem('unauthenticated', 'this user is not known: send a token');
      c.res = user;
      return;
    }
    c.set('host', host);
    if (isApiPath(c.req.path)) c.set('caller', admitCaller(user, { settings, request: raw, host }));
    else c.set('user', admitUser(user, { csrf, request: raw, host }));
    await next();
    secure(c.res.headers, dataPolicy);
  });
}

/** Checks the rights of a user of pages and actions. @throws {Problem} `forbidden`, `origin`, `csrf` */
function admitUser(
  { name, role }: User,
  { csrf, request, host }: { readonly csrf: Csrf; readonly request: Request; readonly host: string },
): User & { readonly role: Role } {
  if (role === 'producer')
    throw new Problem('forbidden', 'the role producer uses the HTTP API alone: see api/v1/openapi.json');
  if (!['GET', 'HEAD'].includes(request.method)) {
    if (role !== 'operator') throw new Problem('forbidden', 'only operators can change anything');
    csrf.check(request, host, name);
  }
  return { name, role };
}

/** Checks the rights of a user of the HTTP API. @throws {Problem} `not_found`, `forbidden`, `origin` */
function admitCaller(
  user: User,
  {
    settings,
    request,
    host,
  }: { readonly settings: Office['settings']; readonly request: Request; readonly host: string },
): User {
  if (settings.api === undefined)
    throw new Problem('not_found', 'the HTTP API is off: set the option "api" (--api)');
  if (user.role === 'viewer')
    throw new Problem('forbidden', 'the HTTP API needs the role producer or operator');
  checkApiOrigin(request, host);
  return user;
}

/**
 * Identifies the user. Without a hook, only requests from this machine get here, and each is an operator's.
 */
async function userOf(auth: Office['settings']['auth'], request: Request): Promise<User | Response> {
  if (auth === undefined) return { name: 'local', role: 'operator' };
  const user = await auth(request);
  if (user instanceof Response) return user;
  if (user === null || user === undefined) throw new Problem('unauthenticated', 'sign in first');
  const { name, role } = user;
  if (isUserRole(role) && typeof name === 'string' && name.length >= 1 && name.length <= 200)
    return { name, role };
  throw new Error(
    'the auth hook must return { name, role }: a text of 1 to 200 characters, and "viewer", "operator" or "producer"',
  );
}

type Answer = (
  desk: Desk,
  query: Parameters,
  given: { readonly office: Office; readonly id: string },
) => Promise<object>;

function session(app: Hono<Env>, { office, csrf, turnstile }: Parts): void {
  app.get('/api/session', (c) =>
    turnstile(async () => {
      await office.ready();
      const user = c.get('user');
      const { token, cookie } = csrf.issue(c.req.raw, user.name);
      if (cookie !== null) c.header('set-cookie', cookie);
      return c.json(await sessionPage(office, office.deskOf(user.role), { user, csrf: token }));
    }),
  );
}

function live(app: Hono<Env>, { office, hub, bulk }: Parts): void {
  app.get('/api/bulk', (c) => c.json({ runs: bulk.list() }));
  app.get('/api/bulk/:run', (c) => c.json(bulk.get(named(c, 'run'))));
  app.get('/api/live', async (c) => {
    await office.ready();
    return c.body(hub.open(c.req.header('last-event-id') ?? null), 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      // keeps proxies from buffering events
      'x-accel-buffering': 'no',
    });
  });
}

/** Routes that only read, in the order in which they are matched. */
const reads: readonly (readonly [string, Answer])[] = [
  ['/api/overview', (_, query, { office }) => overviewPage(office, query)],
  ['/api/keys', (desk, query) => keysPage(desk, query)],
  ['/api/queues', (desk, query, { office }) => queuesPage(office, desk, query)],
  ['/api/jobs', (desk, query, { office }) => jobsPage(office, desk, query)],
  ['/api/jobs/count', (desk, query, { office }) => jobsCount(office, desk, query)],
  ['/api/jobs/:id', (desk, _, { office, id }) => jobPage(office, desk, id)],
  ['/api/jobs/:id/explain', (desk, _, { id }) => explainPage(desk, id)],
  ['/api/flows', (desk, query) => flowsPage(desk, query)],
  ['/api/flows/:id', (desk, _, { id }) => flowPage(desk, id)],
  ['/api/flows/:id/results', (desk, query, { office, id }) => flowResults(office, desk, { id, query })],
  ['/api/nodes', (desk, query) => nodesPage(desk, query)],
  ['/api/nodes/:id/jobs', (desk, query, { office, id }) => nodeJobsPage(office, desk, { node: id, query })],
  ['/api/dead', (desk, query) => deadPage(desk, query)],
  ['/api/dead/groups', (desk, query) => deadGroupsPage(desk, query)],
  ['/api/schedules', (desk, query, { office }) => schedulesPage(office, desk, query)],
  ['/api/policy', (desk) => policyPage(desk)],
  ['/api/health', (desk, _, { office }) => healthPage(office, desk)],
  ['/api/audit', (desk, query) => auditPage(desk, query)],
];

function pages(app: Hono<Env>, { office, turnstile, slowly, answers }: Parts): void {
  for (const [path, answer] of reads) {
    app.get(path, (c) =>
      turnstile(async () => {
        await office.ready();
        const { role } = c.get('user');
        const url = new URL(c.req.url);
        const read = (): Promise<object> =>
          answer(office.deskOf(role), queryOf(url), { office, id: named(c, 'id') });
        // everything that the answer depends on
        const name = `${role} ${url.pathname}${url.search}`;
        const isRenewal = c.req.header(renewalHeader) !== undefined;
        return c.json(await (isRenewal ? answers.again(name, read) : answers.anew(name, read)));
      }),
    );
  }
  app.get('/api/health/doctor', (c) =>
    slowly(async () => {
      await office.ready();
      return c.json(await doctorPage(office.patientDeskOf(c.get('user').role)));
    }),
  );
  app.get('/api/*', () => {
    throw new Problem('not_found', 'there is no such page');
  });
}

function actions(app: Hono<Env>, { office, turnstile, hub, undo, bulk }: Parts): void {
  const action =
    (
      does: (given: Actions, body: unknown, c: In) => object | Promise<object>,
      patient = false,
    ): Handler<Env> =>
    (c) =>
      turnstile(async () => {
        await office.ready();
        const user = c.get('user');
        const desk = patient ? office.patientDeskOf('operator') : office.deskOf('operator');
        const changed: Actions['changed'] = (what, target) =>
          hub.send({ event: 'changed', data: { action: what, target, at: new Date().toISOString() } });
        return c.json(await does({ desk, user, undo, changed }, await readBody(c.req.raw), c));
      });
  app.post('/api/actions/jobs', action(jobsAction, true));
  app.post('/api/actions/flow', action(flowAction, true));
  app.post('/api/actions/queue', action(queueAction));
  app.post('/api/actions/node', action(nodeAction, true));
  app.post('/api/actions/schedule', action(scheduleAction));
  app.post('/api/actions/undo', action(undoAction, true));
  app.post(
    '/api/bulk/preview',
    action(({ desk }, body) => previewOf(office.settings, desk, bulkIn(body))),
  );
  app.post(
    '/api/bulk',
    action(({ desk, user }, body) => bulk.begin(desk, user, bulkIn(body)), true),
  );
  app.post(
    '/api/bulk/:run/stop',
    action((_, __, c) => bulk.stop(named(c, 'run'))),
  );
}
