import { Hono } from 'hono';
import { guard, pathBelow } from '../app.ts';
import { renewalHeader } from '../contract/renewal.ts';
import { createCsrf } from '../guard/csrf.ts';
import type { Turnstile } from '../guard/turnstile.ts';
import { createTurnstile } from '../guard/turnstile.ts';
import type { Env } from '../http/env.ts';
import { named } from '../http/env.ts';
import { createAnswers } from '../live/answers.ts';
import type { Settings } from '../options.ts';
import { Problem, wrongMethod } from '../problem.ts';
import { limits } from '../site.ts';
import { builtFolder, createStaticFiles } from '../static-files.ts';
import { findJob } from './find.ts';
import type { Member } from './member.ts';
import { readAll } from './read-all.ts';

/** Its reads are those of the live views, each of which has its own share of the time. */
const pace = { leastMs: 1_000, mostMs: 1_000, share: 1 } as const;

/** Creates the routes over all installations. They only read. */
export function createFront(settings: Settings, members: readonly Member[]): Hono<Env> {
  const { mountPath } = settings;
  const app = new Hono<Env>({ getPath: ({ url }) => pathBelow(mountPath, new URL(url).pathname) });
  const files = createStaticFiles(builtFolder(), settings, { overall: true });
  const answers = createAnswers(pace);
  const turnstile: Turnstile = createTurnstile({ ...limits, atOnce: settings.concurrency });
  guard(app, { settings, csrf: createCsrf({ secret: settings.csrfSecret, path: mountPath }) });
  app.get('/api/installations', (c) =>
    turnstile(async () => {
      const read = (): ReturnType<typeof readAll> => readAll(members, settings.logger);
      const isRenewal = c.req.header(renewalHeader) !== undefined;
      const all = await (isRenewal ? answers.again('all', read) : answers.anew('all', read));
      const { name, role } = c.get('user');
      return c.json({ actor: { name, role }, ...all });
    }),
  );
  app.get('/api/find/:id', (c) =>
    turnstile(async () => c.json(await findJob(members, c.get('user').role, named(c, 'id')))),
  );
  app.all('/api/*', () => {
    throw new Problem(
      'not_found',
      'there is no such address over all installations: each has its own below i/NAME',
    );
  });
  app.all('/i/:name/api/*', (c) => {
    throw new Problem(
      'not_found',
      `there is no installation ${JSON.stringify(named(c, 'name').slice(0, 63))}`,
    );
  });
  app.get('*', (c) => files.file(c.req.path) ?? files.page());
  app.all('*', () => {
    throw wrongMethod(['GET', 'HEAD']);
  });
  return app;
}
