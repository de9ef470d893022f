import { STATUS_CODES } from 'node:http';
import type { Settings } from '../options.ts';
import type { Operation } from './operations.ts';
import { operations } from './operations.ts';
import type { JsonSchema } from './schemas.ts';
import { schemasOf } from './schemas.ts';

/** Path of the HTTP API below the base path. */
export const apiPath = '/api/v1';

/** Reports whether a path below the base path belongs to the HTTP API. */
export function isApiPath(path: string): boolean {
  return path === apiPath || path.startsWith(`${apiPath}/`);
}

/** Returns the OpenAPI 3.1 document of the HTTP API. */
export function openApiDocument(
  { basePath, auth, api }: Settings,
  version: string,
): Readonly<Record<string, unknown>> {
  const tasks = api?.tasks === undefined ? undefined : [...api.tasks.keys()];
  const paths: Record<string, Record<string, object>> = {};
  for (const [id, operation] of Object.entries<Operation>(operations)) {
    (paths[operation.path] ??= {})[operation.method] = described(id, operation);
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'pgqueue',
      version,
      description:
        'Enqueues jobs, awaits their results and gives signals, for programs that cannot reach the database. Users need the role producer or operator. Bodies are JSON in UTF-8.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: `${basePath}${apiPath}` }],
    ...(auth === undefined ? {} : { security: [{ bearer: [] }] }),
    paths,
    components: {
      ...(auth === undefined ? {} : { securitySchemes: { bearer: bearer } }),
      schemas: schemasOf(tasks),
    },
  };
}

const bearer = {
  type: 'http',
  scheme: 'bearer',
  description: 'A token of --token-file; or what the auth hook of the application takes.',
} as const;

function described(id: string, operation: Operation): object {
  const { summary, description, parameters, body, answers, errors } = operation;
  const told = Object.entries(answers).map(([status, { description: of, schema }]) => [
    status,
    { description: of, content: json(schema === undefined ? { type: 'object' } : ref(schema)) },
  ]);
  const problems = errors.map((status) => [
    String(status),
    {
      description: STATUS_CODES[status] ?? 'Error',
      content: { 'application/problem+json': { schema: ref('Problem') } },
    },
  ]);
  return {
    operationId: id,
    summary,
    description,
    parameters,
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(ref(body)) } }),
    responses: Object.fromEntries([...told, ...problems]) as object,
  };
}

function json(schema: JsonSchema): object {
  return { 'application/json': { schema } };
}

function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}
