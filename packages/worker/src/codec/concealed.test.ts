import type { Codec, PgQueueEvent } from '@pgqueue/core';
import { loggedError } from '@pgqueue/core/internal';
import { expect, test } from 'vitest';
import { concealed, concealing } from './concealed.ts';

test.each([
  ['an error', new TypeError('canary')],
  ['one with causes', new Error('canary', { cause: new Error('canary') })],
  ['one of several', new AggregateError([new Error('canary')], 'canary')],
  ['one whose message looks like frames', new Error('a\n    at canary (canary.js:1:1)')],
  ['one with other members', Object.assign(new Error('canary'), { detail: 'canary', code: 'E_X' })],
  ['a text', 'canary'],
  ['an object', { canary: 'canary' }],
  ['nothing', undefined],
])('%s shows no text', (_what, error) => {
  const shown = concealed(error);
  expect(JSON.stringify([loggedError(shown), shown, shown.message, shown.stack])).not.toContain('canary');
});

test('name, code and frames of an error stay', () => {
  const error = Object.assign(new RangeError('canary'), { code: 'E_X' });
  expect(concealed(error)).toMatchObject({ name: 'RangeError', code: 'E_X' });
  expect(concealed(error).stack).toContain('concealed.test.ts');
});

test('events of handlers are concealed only if the codec encodes errors', () => {
  const heard: PgQueueEvent[] = [];
  const settled: PgQueueEvent = {
    type: 'job.settled',
    job: 'id',
    queue: 'default',
    task: 'greet',
    verdict: 'dead',
    durationMs: 1,
    error: new Error('canary'),
  };
  for (const errors of [true, false])
    concealing({ errors } as Codec, (event) => void heard.push(event))(settled);
  expect(heard.map((event) => String((event as typeof settled).error).includes('canary'))).toEqual([
    false,
    true,
  ]);
});
