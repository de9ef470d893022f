import { jobStatuses, flowLimits, jobLimits, terminalStatuses } from '@pgqueue/core/internal';

/** A JSON Schema of draft 2020-12, as OpenAPI 3.1 has it. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Bounds of the HTTP API. */
export const apiLimits = {
  jobsMax: 1_000,
  bodyBytesMax: 8_388_608,
  /** Twice the JSON of a value, which may be written with escapes. */
  signalBytesMax: 524_288,
  keyLengthMax: 200,
  /** Longest wait for a result, in seconds. */
  waitMaxS: 60,
} as const;

const int32Max = 2_147_483_647;
const ref = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` });
const text = (minLength: number, maxLength: number): JsonSchema => ({ type: 'string', minLength, maxLength });
const whole = (minimum: number, maximum: number): JsonSchema => ({ type: 'integer', minimum, maximum });
const anId: JsonSchema = { type: 'string', format: 'uuid' };
const aTime: JsonSchema = { type: 'string', format: 'date-time' };
const aDuration = ref('Duration');
const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = Object.keys(properties),
): JsonSchema => ({ type: 'object', additionalProperties: false, required, properties });
const about = (description: string, schema: JsonSchema = {}): JsonSchema => ({ ...schema, description });

const aDurationText: JsonSchema = {
  description: 'Milliseconds, or a number with its unit: "500ms", "30s", "5m", "2h", "7d". Up to 3650d.',
  oneOf: [
    { type: 'number', minimum: 0, maximum: 3_650 * 86_400_000 },
    { type: 'string', pattern: String.raw`^\s*\d+(\.\d+)?(ms|s|m|h|d)\s*$` },
  ],
};

/** Returns the schema of a job at enqueue. `tasks`: names of the only tasks that the API takes. */
function jobSchema(tasks: readonly string[] | undefined): JsonSchema {
  return object(
    {
      task: about(
        'Name of the task.',
        tasks === undefined ? text(1, jobLimits.taskLengthMax) : { enum: tasks },
      ),
      payload: about(
        `Any JSON of up to ${jobLimits.payloadBytesMax} bytes and ${jobLimits.payloadDepthMax} levels. Default {}.`,
      ),
      payloadVersion: about('Version of the payload. Default 1.', whole(1, int32Max)),
      id: about('Enqueuing the same id again changes nothing. Not together with Idempotency-Key.', anId),
      queue: about('Default "default".', text(1, jobLimits.queueLengthMax)),
      key: about('Fairness key: a tenant, a customer. Default "".', text(0, jobLimits.keyLengthMax)),
      priority: about('Smaller runs first, within its key. Default 0.', whole(-int32Max, int32Max)),
      attributes: about('Small flat JSON for policies.', {
        type: 'object',
        additionalProperties: { type: ['string', 'number', 'boolean', 'null'] },
      }),
      runAfter: about('Earliest start. Not together with delay.', aTime),
      delay: about('Time from now to the earliest start.', aDuration),
      expiresAt: about('Latest start. A job that was not started by then ends as expired.', aTime),
      timeout: about('Longest time of one attempt. Positive. Default 5 minutes.', aDuration),
      retry: about("Without a part of the backoff, that of the worker's task holds.", ref('Retry')),
      uniqueKey: about('At most one unfinished job of a task has it. A text means onConflict "keep".', {
        oneOf: [text(1, jobLimits.uniqueKeyLengthMax), ref('Unique')],
      }),
      trace: about('W3C trace context. Default: the headers traceparent and tracestate of the request.', {
        ...object({ traceparent: { type: 'string' }, tracestate: { type: 'string' } }, ['traceparent']),
      }),
    },
    ['task'],
  );
}

const retrySchema = object(
  {
    maxTries: about('Default 20.', whole(1, 1_000)),
    maxCrashes: about('Default 3.', whole(1, 1_000)),
    backoff: about('Default "exponential".', { enum: ['fixed', 'linear', 'exponential'] }),
    base: about('The first delay. Default 1s.', aDuration),
    factor: about('Default 2.', { type: 'number', minimum: 1 }),
    max: about('The longest delay. Default 1h.', aDuration),
    jitter: about('Random share of the delay. Default 0.2.', { type: 'number', minimum: 0, maximum: 1 }),
  },
  [],
);

const uniqueSchema = object(
  {
    key: text(1, jobLimits.uniqueKeyLengthMax),
    onConflict: about('Default "keep".', { enum: ['keep', 'replace', 'debounce', 'supersede'] }),
    maxWait: about('Longest wait of a job that is debounced. Positive.', aDuration),
  },
  ['key'],
);

const outcomes = ['enqueued', 'repeated', 'kept', 'replaced', 'debounced', 'superseded'];

/** Schemas of bodies, by name. `tasks`: names of the only tasks that the API takes. */
export function schemasOf(tasks: readonly string[] | undefined): Readonly<Record<string, JsonSchema>> {
  return {
    Duration: aDurationText,
    Retry: retrySchema,
    Unique: uniqueSchema,
    Job: jobSchema(tasks),
    Jobs: object({ jobs: { type: 'array', minItems: 1, maxItems: apiLimits.jobsMax, items: ref('Job') } }),
    Enqueue: { oneOf: [ref('Job'), ref('Jobs')] },
    Enqueued: object({
      jobs: about('One element a job, in the order of the request.', {
        type: 'array',
        items: object({
          id: about(
            'The job that stands for it: the older one if that was kept, replaced or debounced.',
            anId,
          ),
          outcome: { enum: outcomes },
        }),
      }),
    }),
    Ended: object({
      id: anId,
      status: { enum: terminalStatuses },
      result: about('What the handler of a done job returned; null: nothing, or the job is not done.'),
      error: about('Error of the last attempt of a dead job, or why the result of a done job is lost.', {
        oneOf: [
          { type: 'null' },
          object({
            reason: { enum: ['max_tries', 'crash_limit', 'gave_up', 'result_lost'] },
            message: { type: 'string' },
          }),
        ],
      }),
    }),
    Unfinished: object({
      id: anId,
      status: { enum: jobStatuses.filter((status) => !terminalStatuses.includes(status)) },
    }),
    Signal: object({ value: about(`Any JSON of up to ${flowLimits.valueBytesMax} bytes.`) }),
    Signalled: object({
      outcome: about('The first value wins. ended: nothing waits for the signal any more.', {
        enum: ['signalled', 'repeated', 'ended'],
      }),
    }),
    Problem: about('RFC 9457.', {
      ...object({
        type: { const: 'about:blank' },
        title: { type: 'string' },
        status: whole(400, 599),
        detail: about('Explanation for people, with what to do about it.', { type: 'string' }),
        code: about('For programs.', { type: 'string' }),
        problems: about('All problems of a request.', {
          oneOf: [{ type: 'null' }, { type: 'array', items: { type: 'string' } }],
        }),
      }),
    }),
  };
}
