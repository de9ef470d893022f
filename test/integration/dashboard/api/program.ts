import type { Dashboard } from '@pgqueue/dashboard';
import addFormats from 'ajv-formats';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect } from 'vitest';
import { origin } from '../support.ts';

/** The OpenAPI document of the HTTP API, as far as tests read it. */
export interface Document {
  readonly openapi: string;
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

interface DocumentedOperation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content: Content }>>;
}

type Content = Readonly<Record<string, { readonly schema: object }>>;

/** An answer of the HTTP API, which conforms to its document. */
export interface ApiAnswer {
  readonly status: number;
  readonly body: any; // oxlint-disable-line typescript/no-explicit-any -- its schema has checked it
  readonly headers: Headers;
}

/** A program that uses the HTTP API: it has neither cookies nor the headers of a browser. */
export interface Program {
  readonly get: (path: string, init?: RequestInit) => Promise<ApiAnswer>;
  /** A text is sent as it is, and anything else as JSON. */
  readonly post: (
    path: string,
    body: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<ApiAnswer>;
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>;
  readonly document: () => Promise<Document>;
}

/** Calls the HTTP API as a user; every answer must be one that its document announces. */
export function program(dashboard: Dashboard, user: string): Program {
  const fetch: Program['fetch'] = (path, init = {}) =>
    dashboard.fetch(
      new Request(`${origin}${dashboard.basePath}/api/v1${path}`, {
        ...init,
        headers: { 'x-user': user, host: 'queue.example', ...(init.headers as Record<string, string>) },
      }),
    );
  let known: Promise<Document> | undefined;
  const document: Program['document'] = () =>
    (known ??= dashboard
      .fetch(
        new Request(`${origin}${dashboard.basePath}/api/v1/openapi.json`, {
          headers: { 'x-user': 'document:producer', host: 'queue.example' },
        }),
      )
      .then((response) => response.json() as Promise<Document>));
  const call = async (path: string, init: RequestInit): Promise<ApiAnswer> => {
    const [response, announced] = await Promise.all([fetch(path, init), document()]);
    const body: unknown = await response.json();
    const type = response.headers.get('content-type');
    const operation = operationOf(announced, init.method ?? 'GET', path.replace(/\?.*/, ''));
    const content = operation?.responses[response.status]?.content;
    const problems =
      operation === undefined
        ? validatorOf(announced, { $ref: '#/components/schemas/Problem' }).problems(body)
        : problemsIn(announced, content?.[type ?? ''], body);
    expect({ path, status: response.status, type, problems }).toMatchObject({ problems: [] });
    return { status: response.status, body, headers: response.headers };
  };
  return {
    fetch,
    document,
    get: (path, init = {}) => call(path, init),
    post: (path, body, headers = {}) =>
      call(path, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        headers: { 'content-type': 'application/json', ...headers },
      }),
  };
}

function problemsIn(
  document: Document,
  content: { readonly schema: object } | undefined,
  body: unknown,
): unknown {
  return content === undefined
    ? ['the document announces no such answer']
    : validatorOf(document, content.schema).problems(body);
}

function operationOf(document: Document, method: string, path: string): DocumentedOperation | undefined {
  const found = Object.entries(document.paths).find(([template]) =>
    new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
  );
  return found?.[1][method.toLowerCase()];
}

const validators = new Map<string, ValidateFunction>();

/** Returns the validator of a schema of the document. */
export function validatorOf(
  { components }: Pick<Document, 'components'>,
  schema: object,
): { readonly problems: (value: unknown) => readonly unknown[] } {
  const name = JSON.stringify([components, schema]);
  let validate = validators.get(name);
  if (validate === undefined) {
    const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });
    ajv.addVocabulary(['components']);
    addFormats.default(ajv);
    validate = ajv.compile({ ...schema, components });
    validators.set(name, validate);
  }
  const compiled = validate;
  return {
    problems: (value) => (compiled(value) ? [] : (compiled.errors ?? [])),
  };
}

/** Ids of the jobs in an answer. */
export function idsOf({ body }: ApiAnswer): readonly string[] {
  return (body as { jobs: readonly { id: string }[] }).jobs.map(({ id }) => id);
}

/** Outcomes of the jobs in an answer. */
export function outcomesOf({ body }: ApiAnswer): readonly string[] {
  return (body as { jobs: readonly { outcome: string }[] }).jobs.map(({ outcome }) => outcome);
}
