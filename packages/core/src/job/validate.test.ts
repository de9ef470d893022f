import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PgQueueError } from '../errors.ts';
import type { JobOptions, JobRow, NewJob } from './job.ts';
import { defineTask } from './task.ts';
import { toJobRow } from './validate.ts';

const id = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f';

async function row(payload: unknown, options: object = {}, part: Partial<NewJob> = {}): Promise<JobRow> {
  const check = (): readonly string[] => [];
  const job = { task: 'mail', payloadVersion: 1, payload, options: options as JobOptions, check, ...part };
  return toJobRow(job, () => id);
}

async function problems(work: Promise<unknown>): Promise<readonly string[]> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error === undefined) return [];
  expect(error).toBeInstanceOf(PgQueueError);
  expect(error).toMatchObject({ code: 'invalid_job' });
  return (error as PgQueueError).data['problems'] as readonly string[];
}

describe('a payload', () => {
  test('of JSON goes through unchanged', async () => {
    const json = fc
      .jsonValue({ noUnicodeString: false })
      .filter((value) => !/__proto__|constructor|\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)));
    await fc.assert(
      fc.asyncProperty(json, async (payload) => {
        expect(JSON.parse((await row(payload)).payload)).toEqual(JSON.parse(JSON.stringify(payload)));
      }),
    );
  });

  test('that is missing is an empty object', async () => {
    expect((await row(undefined)).payload).toBe('{}');
    expect((await row(null)).payload).toBe('null');
  });

  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;

  test.each<[string, unknown, RegExp]>([
    ['a key __proto__', JSON.parse('{"a":[{"__proto__":{"admin":true}}]}'), /must not have a key __proto__/],
    [
      'a key constructor with a prototype',
      { a: { constructor: { prototype: 1 } } },
      /must not have a key constructor/,
    ],
    ['a cycle', cycle, /can't be written as JSON: .*circular/],
    ['a BigInt', { a: 5n }, /can't be written as JSON: .*BigInt/],
    ['a function', () => 1, /can't be written as JSON$/],
    ['a symbol', Symbol('x'), /can't be written as JSON$/],
    ['NUL', { a: ['x\u0000'] }, /must not contain NUL/],
    ['NUL in a key', { 'x\u0000': 1 }, /key with NUL/],
    ['a lone surrogate', { a: '\ud83e' }, /lone surrogates/],
    ['a lone surrogate in a key', { '\udd86': 1 }, /lone surrogates/],
    ['too many bytes', 'x'.repeat(262_143), /262145 bytes of JSON, more than 262144/],
    ['too many bytes in few characters', '🦆'.repeat(65_536), /262146 bytes/],
    [
      'a toJSON that throws',
      {
        toJSON: () => {
          throw new Error('no');
        },
      },
      /can't be written as JSON: no/,
    ],
  ])('with %s is refused', async (_name, payload, problem) => {
    expect(await problems(row(payload))).toEqual([expect.stringMatching(problem)]);
  });

  test('of exactly the limit is taken', async () => {
    expect((await row('x'.repeat(262_142))).payload).toHaveLength(262_144);
  });

  test('is checked as the handler will see it: after a round trip through JSON', async () => {
    const dated = defineTask({ name: 'dated', payload: z.object({ at: z.date() }) });
    const wrong = await problems((async () => toJobRow(dated.job({ at: new Date() }), () => id))());
    expect(wrong).toEqual([
      expect.stringMatching(/^at: .*date.*string/i),
      expect.stringMatching(
        /^the payload fits as it was given, and not as it is stored: in JSON a Date is a string/,
      ),
    ]);
    const neither = await problems((async () => toJobRow(dated.job({ at: 5 } as never), () => id))());
    expect(neither).toEqual([expect.stringMatching(/^at: .*date.*number/i)]);
    const coerced = defineTask({ name: 'dated', payload: z.object({ at: z.coerce.date() }) });
    const at = new Date(0);
    expect((await toJobRow(coerced.job({ at }), () => id)).payload).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
    const left = defineTask({ name: 'left', payload: z.object({ a: z.string().optional() }) });
    expect((await toJobRow(left.job({ a: undefined }), () => id)).payload).toBe('{}');
  });

  test('is stored as it was given, not as its schema transforms it', async () => {
    const trimmed = defineTask({
      name: 'trim',
      payload: z.object({ a: z.string().trim(), b: z.number().default(1) }),
    });
    expect((await toJobRow(trimmed.job({ a: ' x ' }), () => id)).payload).toBe('{"a":" x "}');
  });

  test('whose schema throws is the caller’s error', async () => {
    const check = (): Promise<never> => Promise.reject(new Error('broken schema'));
    expect(await problems(row({}, {}, { check }))).toEqual(["the payload's schema threw: broken schema"]);
    const throws = (): never => {
      throw new Error('broken schema');
    };
    expect(await problems(row({}, {}, { check: throws }))).toEqual([
      "the payload's schema threw: broken schema",
    ]);
  });

  test('is a row at once, but for a schema that is asynchronous', async () => {
    const at = (payload: z.ZodType): unknown =>
      toJobRow(defineTask({ name: 'async', payload }).job({ a: 1 }), () => id);
    expect(at(z.object({ a: z.number() }))).toMatchObject({ payload: '{"a":1}' });
    const later = at(z.object({ a: z.number() }).refine(() => Promise.resolve(true)));
    expect(later).toBeInstanceOf(Promise);
    expect(await later).toMatchObject({ payload: '{"a":1}' });
  });
});

describe('options', () => {
  test('of none give the defaults', async () => {
    expect(await row({})).toEqual({
      id,
      queue: 'default',
      task: 'mail',
      key: '',
      priority: 0,
      attributes: {},
      runAfter: null,
      delayMs: null,
      expiresAt: null,
      timeoutMs: null,
      maxTries: 20,
      maxCrashes: 3,
      retry: null,
      unique: null,
      payload: '{}',
      payloadVersion: 1,
      trace: null,
    });
  });

  test('are brought into the form of the row', async () => {
    const options = { id: id.toUpperCase(), delay: '0.0001s', timeout: 1.2, uniqueKey: 'u' };
    expect(await row({}, options)).toMatchObject({
      id,
      delayMs: 1,
      timeoutMs: 2,
      unique: { key: 'u', onConflict: 'keep', maxWaitMs: null },
    });
    const retry = { maxTries: 2, base: '2s' };
    const unique = { key: 'u', onConflict: 'debounce' };
    expect(await row({}, { retry, uniqueKey: { ...unique, maxWait: '0.0001s' } })).toMatchObject({
      maxTries: 2,
      retry: { kind: 'exponential', baseMs: 2_000 },
      unique: { ...unique, maxWaitMs: 1 },
    });
    const limits = { maxTries: 2, maxCrashes: 1 };
    expect(await row({}, { retry: limits })).toMatchObject({ ...limits, retry: null });
    for (const part of [{ backoff: 'fixed' }, { base: 1 }, { factor: 3 }, { max: 1 }, { jitter: 0 }])
      expect((await row({}, { retry: part })).retry).not.toBeNull();
    const supersede = { key: 'u', onConflict: 'supersede' };
    expect((await row({}, { uniqueKey: supersede })).unique).toEqual({ ...supersede, maxWaitMs: null });
  });

  test.each<[string, object]>([
    ['queue', { queue: '' }],
    ['queue', { queue: 'q'.repeat(101) }],
    ['queue', { queue: 5 }],
    ['key', { key: 'k'.repeat(201) }],
    ['key', { key: 'a\u0000b' }],
    ['key', { key: '\ud83e' }],
    ['uniqueKey', { uniqueKey: '' }],
    ['uniqueKey', { uniqueKey: { key: 'u'.repeat(501) } }],
    ['uniqueKey.onConflict', { uniqueKey: { key: 'u', onConflict: 'drop' } }],
    ['uniqueKey.onConflict', { uniqueKey: { key: 'u', onConflict: 'toString' } }],
    ['uniqueKey.onConflict', { uniqueKey: { key: 'u', onConflict: null } }],
    ['uniqueKey.onConflict', { uniqueKey: { key: 'u', onConflict: ['keep'] } }],
    ...[0, -1, '0s', '5', 'soon', '3651d', Number.NaN, null, {}, []].map((maxWait): [string, object] => [
      'uniqueKey.maxWait must be a positive duration',
      { uniqueKey: { key: 'u', onConflict: 'debounce', maxWait } },
    ]),
    ...['keep', 'replace', 'supersede', undefined].map((onConflict): [string, object] => [
      'uniqueKey.maxWait goes with onConflict debounce only',
      { uniqueKey: { key: 'u', onConflict, maxWait: '1s' } },
    ]),
    ['there is no uniqueKey.maxwait: did you mean maxWait', { uniqueKey: { key: 'u', maxwait: 1 } }],
    ['id', { id: '5' }],
    ['id', { id: 5 }],
    ['uniqueKey', { uniqueKey: null }],
    ['priority', { priority: 0.5 }],
    ['priority', { priority: 2_147_483_648 }],
    ['priority', { priority: Number.NaN }],
    ['runAfter', { runAfter: new Date(Number.NaN) }],
    ['runAfter', { runAfter: '2026-01-01' }],
    ['runAfter', { runAfter: new Date('+012026-01-01T00:00:00Z') }],
    ['expiresAt', { expiresAt: new Date('-000001-01-01T00:00:00Z') }],
    ['give runAfter or delay', { runAfter: new Date(0), delay: 5 }],
    ['delay', { delay: '5' }],
    ['delay must be a duration of up to 3650d', { delay: '3651d' }],
    ['timeout', { timeout: 0 }],
    ['attributes', { attributes: { a: { b: 1 } } }],
    ['attributes', { attributes: { a: Number.NaN } }],
    ['attributes', { attributes: [1] }],
    ['attributes', { attributes: null }],
    ['attributes', { attributes: { a: 'x'.repeat(4_096) } }],
    ['attributes', { attributes: { a: '\u0000' } }],
    ['trace.traceparent', { trace: { traceparent: 'x' } }],
    ['trace.traceparent', { trace: {} }],
    [
      'trace.tracestate',
      { trace: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'x'.repeat(513) } },
    ],
    ['retry.maxTries', { retry: { maxTries: 0 } }],
    ['retry must', { retry: null }],
    ['trace.traceparent', { trace: null }],
    ['uniqueKey', { uniqueKey: {} }],
  ])('%s is told (case %#)', async (name, options) => {
    expect(await problems(row({}, options))).toEqual([expect.stringMatching(new RegExp(`^${name}`))]);
  });

  test.each<[string, Partial<NewJob>]>([
    ['task', { task: '' }],
    ['task', { task: 't'.repeat(201) }],
    ['payloadVersion', { payloadVersion: 0 }],
    ['payloadVersion', { payloadVersion: 2_147_483_648 }],
    ['payloadVersion', { payloadVersion: 1.5 }],
  ])('%s is told (case %#)', async (name, part) => {
    expect(await problems(row({}, {}, part))).toEqual([expect.stringContaining(`${name} must`)]);
  });

  test.each([
    [5, 'the number 5'],
    [null, 'null'],
    [true, 'true'],
    [{}, 'an object'],
    ['k'.repeat(201), 'a text of 201 characters'],
  ])('a key that is %j is refused, and what it was is said', async (key, got) => {
    const [problem] = await problems(row({ a: 1 }, { key: key as never }));
    expect(problem).toBe(`key must be a text of 0 to 200 characters, not ${got}`);
  });

  test('everything that is wrong with a unique key is told at once', async () => {
    const wrong = await problems(row({}, { uniqueKey: { key: '', onConflict: 'drop', maxWait: 0, max: 1 } }));
    expect(wrong).toEqual([
      expect.stringMatching(/^uniqueKey must be a text of 1 to 500 characters/),
      expect.stringMatching(/^there is no uniqueKey.max/),
      'uniqueKey.onConflict must be keep, replace, debounce or supersede, not "drop"',
      'uniqueKey.maxWait must be a positive duration, such as "30s", not 0',
      'uniqueKey.maxWait goes with onConflict debounce only',
    ]);
  });

  test('everything that is wrong is told at once, the payload first', async () => {
    const check = (): Promise<readonly string[]> => Promise.resolve(['to: missing']);
    const wrong = await problems(row({ a: 1n }, { queue: '', key: 5, priority: 0.1 }, { check }));
    expect(wrong.map((text) => text.split(/[ :]/)[0])).toEqual(['to', 'queue', 'key', 'priority', 'payload']);
  });
});
