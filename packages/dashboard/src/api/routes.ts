import { isUuid } from '@pgqueue/core/internal';
import type { Hono } from 'hono';
import type { Env, In } from '../http/env.ts';
import { named } from '../http/env.ts';
import type { Office } from '../desk.ts';
import type { Turnstile } from '../guard/turnstile.ts';
import { checked, parseJson, readJsonText } from '../http/body.ts';
import { queryOf } from '../http/parameters.ts';
import { anything } from '@pgqueue/core/internal';
import { ownVersion } from '../http/version.ts';
import { Problem, wrongMethod } from '../problem.ts';
import { apiPath, openApiDocument } from './document.ts';
import { idempotencyKeyOf, requestIds } from './idempotency.ts';
import type { Operation, OperationId } from './operations.ts';
import { operations } from './operations.ts';
import { jobsIn, traceOf } from './read-jobs.ts';
import { apiLimits } from './schemas.ts';
import type { ApiProducer } from './producer.ts';

/** Components that the routes of the HTTP API use. */
export interface ApiParts {
  readonly office: Office;
  readonly producer: ApiProducer;
  /** Limits requests whose large bodies are held in memory. */
  readonly reading: Turnstile;
  /** Limits statements. */
  readonly turnstile: Turnstile;
}

/** Adds the routes of the HTTP API. */
export function apiRoutes(app: Hono<Env>, parts: ApiParts): void {
  const { settings } = parts.office;
  const handlers: Readonly<Record<OperationId, (c: In) => Response | Promise<Response>>> = {
    enqueue: (c) => enqueue(parts, c),
    result: (c) => result(parts, c),
    signalFlow: (c) =>
      signal(parts, c, (value) => parts.producer.writing().signal(named(c, 'id'), named(c, 'step'), value)),
    signalJob: (c) =>
      signal(parts, c, (value) =>
        parts.producer.writing().signalJob(named(c, 'id'), named(c, 'name'), value),
      ),
    document: (c) => c.json(openApiDocument(settings, ownVersion())),
  };
  for (const [id, { method, path }] of Object.entries<Operation>(operations))
    app[method](`${apiPath}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`, handlers[id as OperationId]);
  for (const { path, method } of Object.values<Operation>(operations)) {
    app.all(`${apiPath}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`, () => {
      throw wrongMethod(method === 'get' ? ['GET', 'HEAD'] : ['POST']);
    });
  }
  app.all(`${apiPath}/*`, notThere);
  app.all(apiPath, notThere);
}

function notThere(): never {
  throw new Problem('not_found', `there is no such operation: see ${apiPath}/openapi.json`);
}

/** Largest body, in bytes, that takes no place among those that are read at a time: a slow client would keep it. */
const smallBytesMax = 65_536;

/** Reads a body in `work`, in turn unless the request says that it is small. */
function reading<Result>(
  { reading: inTurn }: ApiParts,
  { headers }: Request,
  work: () => Promise<Result>,
): Promise<Result> {
  const bytes = headers.get('content-length');
  return bytes !== null && Number(bytes) <= smallBytesMax ? work() : inTurn(work);
}

function enqueue(parts: ApiParts, c: In): Promise<Response> {
  const { office, producer, turnstile } = parts;
  return reading(parts, c.req.raw, async () => {
    const { headers } = c.req.raw;
    const key = idempotencyKeyOf(headers);
    const body = await readJsonText(c.req.raw, apiLimits.bodyBytesMax);
    const ids = key === undefined ? undefined : requestIds({ user: c.get('caller').name, key, body });
    const jobs = jobsIn(parseJson(body), {
      tasks: office.settings.api?.tasks,
      trace: traceOf(headers),
      idOf: ids,
    });
    return turnstile(async () => {
      await office.ready();
      const enqueued = await producer.writing(ids && jobs.map((_, index) => ids(index))).enqueueMany(jobs);
      return c.json({ jobs: enqueued.map(({ id, outcome }) => ({ id, outcome })) }, 202);
    });
  });
}

async function result({ office, producer }: ApiParts, c: In): Promise<Response> {
  const id = named(c, 'id').toLowerCase();
  const query = queryOf(new URL(c.req.url));
  const timeout = query.text('timeout') ?? '0';
  const seconds = Number(timeout);
  if (!/^\d{1,4}(?:\.\d{1,6})?$/.test(timeout) || seconds > apiLimits.waitMaxS)
    query.fail(`timeout must be a number of seconds from 0 to ${apiLimits.waitMaxS}`);
  if (!isUuid(id)) query.fail('the id of a job must be a UUID');
  query.done();
  await office.ready();
  const { signal } = c.req.raw;
  try {
    const { status, body } = await producer.result(id, { timeoutMs: seconds * 1_000, signal });
    return c.json(body, status);
  } catch (error) {
    // nobody reads the answer
    if (signal.aborted) return new Response(null, { status: 499 });
    throw error;
  }
}

async function signal(parts: ApiParts, c: In, give: (value: unknown) => Promise<string>): Promise<Response> {
  const { office, turnstile } = parts;
  return reading(parts, c.req.raw, async () => {
    const body = parseJson(await readJsonText(c.req.raw, apiLimits.signalBytesMax));
    const { value } = checked(body, { value: anything }) as { readonly value: unknown };
    return turnstile(async () => {
      await office.ready();
      return c.json({ outcome: await give(value) });
    });
  });
}
