import type { JsonSchema } from './schemas.ts';
import { apiLimits } from './schemas.ts';

/** A parameter in OpenAPI's terms. */
interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
}

/** One operation of the HTTP API: the routes and the OpenAPI document are made of it. */
export interface Operation {
  readonly method: 'get' | 'post';
  /** Below `/api/v1`, with parameters in braces. */
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  /** Name of the schema of its body; undefined: it has none. */
  readonly body?: string;
  /** Description and name of the schema of each answer but errors, by status. */
  readonly answers: Readonly<Record<number, { readonly description: string; readonly schema?: string }>>;
  /** Statuses of its errors. */
  readonly errors: readonly number[];
}

/** `operationId` of an operation. */
export type OperationId = 'enqueue' | 'result' | 'signalFlow' | 'signalJob' | 'document';

const always = [400, 401, 403, 503, 504];

const inPath = (name: string, description: string, schema: JsonSchema): Parameter => ({
  name,
  in: 'path',
  required: true,
  description,
  schema,
});
const aJobId = inPath('id', 'Id of the job.', { type: 'string', format: 'uuid' });
const aName = { type: 'string', minLength: 1, maxLength: 200 };

/** All operations, by their `operationId`. */
export const operations: Readonly<Record<OperationId, Operation>> = {
  enqueue: {
    method: 'post',
    path: '/jobs',
    summary: 'Enqueue jobs',
    description: `Enqueues one job, or up to ${apiLimits.jobsMax} with one statement, all or none. The body has ${apiLimits.bodyBytesMax} bytes at most.`,
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        description:
          'A repeated request of the same user with the same key and body enqueues nothing, and answers with the same ids. The same key with another body is refused (422). Both hold until the history of the jobs is gone.',
        schema: { type: 'string', minLength: 1, maxLength: apiLimits.keyLengthMax },
      },
      {
        name: 'traceparent',
        in: 'header',
        required: false,
        description: 'W3C trace context of jobs that bring none.',
        schema: { type: 'string' },
      },
    ],
    body: 'Enqueue',
    answers: { 202: { description: 'The jobs are stored.', schema: 'Enqueued' } },
    errors: [...always, 413, 415, 422, 429],
  },
  result: {
    method: 'get',
    path: '/jobs/{id}/result',
    summary: 'Read or await the result of a job',
    description: 'Waits until the job has ended, for at most `timeout` seconds.',
    parameters: [
      aJobId,
      {
        name: 'timeout',
        in: 'query',
        required: false,
        description: 'Longest wait, in seconds.',
        schema: { type: 'number', minimum: 0, maximum: apiLimits.waitMaxS, default: 0 },
      },
    ],
    answers: {
      200: { description: 'The job has ended.', schema: 'Ended' },
      202: { description: 'The job has not ended yet: ask again.', schema: 'Unfinished' },
    },
    errors: [...always, 404],
  },
  signalFlow: {
    method: 'post',
    path: '/flows/{id}/signals/{step}',
    summary: 'Give a signal of a flow its value',
    description: 'The value is not checked by the schema of the signal, which only the application knows.',
    parameters: [
      inPath('id', 'Id of the flow.', { type: 'string', format: 'uuid' }),
      inPath('step', 'Name of the step.', aName),
    ],
    body: 'Signal',
    answers: { 200: { description: 'What became of the value.', schema: 'Signalled' } },
    errors: [...always, 404, 413, 415],
  },
  signalJob: {
    method: 'post',
    path: '/jobs/{id}/signals/{name}',
    summary: 'Give a job the value of a signal that its handler waits for, or will wait for',
    description: 'For handlers that call `ctx.waitForSignal`, which checks the value.',
    parameters: [aJobId, inPath('name', 'Name of the signal.', { ...aName, maxLength: 100 })],
    body: 'Signal',
    answers: { 200: { description: 'What became of the value.', schema: 'Signalled' } },
    errors: [...always, 404, 413, 415],
  },
  document: {
    method: 'get',
    path: '/openapi.json',
    summary: 'Read this document',
    description: 'OpenAPI 3.1.',
    parameters: [],
    answers: { 200: { description: 'The document.' } },
    errors: [401, 403],
  },
};
