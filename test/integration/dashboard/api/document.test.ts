import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Program } from './program.ts';
import { program, validatorOf } from './program.ts';
import type { DashboardBench } from '../support.ts';
import { openDashboardBench } from '../support.ts';

let bench: DashboardBench;
let api: Program;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_api_document_test');
  api = program(bench.dashboard({ api: true }), 'shop:producer');
});
afterAll(() => bench.close());

const missing = '00000000-0000-7000-8000-000000000000';

test('the document is OpenAPI 3.1, for the path at which the dashboard is mounted', async () => {
  const mounted = program(bench.dashboard({ api: true, basePath: '/admin/queue' }), 'shop:producer');
  const document = await mounted.document();
  const { valid, errors } = await new Validator().validate({ ...structuredClone(document) });
  expect({ valid, errors }).toEqual({ valid: true, errors: undefined });
  expect([document.openapi, document.servers]).toEqual(['3.1.1', [{ url: '/admin/queue/api/v1' }]]);
  const ids = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(ids.toSorted()).toEqual(['document', 'enqueue', 'result', 'signalFlow', 'signalJob']);
  expect((await mounted.post('/jobs', { task: 'hello' })).status).toBe(202);
});

test.each<[string, unknown]>([
  ['a job', { task: 'a' }],
  ['jobs', { jobs: [{ task: 'a' }, { task: 'b', key: '' }] }],
  ['a time with an offset', { task: 'a', runAfter: '2099-01-01T00:00:00.5+02:00' }],
  ['a time without a zone', { task: 'a', runAfter: '2099-01-01T00:00:00' }],
  ['a day', { task: 'a', expiresAt: '2099-01-01' }],
  ['a number as a time', { task: 'a', runAfter: 1 }],
  ['a month that is none', { task: 'a', runAfter: '2099-13-01T00:00:00Z' }],
  ['a delay in words', { task: 'a', delay: '10 minutes' }],
  ['a delay', { task: 'a', delay: '1.5m' }],
  ['a negative delay', { task: 'a', delay: -1 }],
  ['a large priority', { task: 'a', priority: 2_147_483_648 }],
  ['a priority with a part', { task: 'a', priority: 0.5 }],
  ['attributes', { task: 'a', attributes: { a: 1, b: null } }],
  ['nested attributes', { task: 'a', attributes: { a: {} } }],
  ['a list of attributes', { task: 'a', attributes: [] }],
  ['a retry', { task: 'a', retry: { maxTries: 1, factor: 1.5, max: '1d' } }],
  ['a retry without tries', { task: 'a', retry: { maxTries: 0 } }],
  ['an unknown backoff', { task: 'a', retry: { backoff: 'none' } }],
  ['a unique key', { task: 'a', uniqueKey: { key: 'k', onConflict: 'supersede' } }],
  ['an unknown conflict', { task: 'a', uniqueKey: { key: 'k', onConflict: 'skip' } }],
  ['an id', { task: 'a', id: missing }],
  ['an id that is none', { task: 'a', id: 'x' }],
  ['a long queue', { task: 'a', queue: 'q'.repeat(101) }],
  ['an empty queue', { task: 'a', queue: '' }],
  ['null for an option', { task: 'a', queue: null }],
  ['an unknown member', { task: 'a', colour: 1 }],
  ['no task', { payload: {} }],
  ['a number as a task', { task: 1 }],
  ['no jobs', { jobs: [] }],
  ['jobs that are none', { jobs: [1] }],
  ['something beside jobs', { jobs: [{ task: 'a' }], task: 'b' }],
  ['a list', [{ task: 'a' }]],
  ['null', null],
  ['a version', { task: 'a', payloadVersion: 2 }],
  ['a version that is none', { task: 'a', payloadVersion: 0 }],
  ['a payload of null', { task: 'a', payload: null }],
])('the document and the server agree about %s', async (_, body) => {
  const { components } = await api.document();
  const announced = validatorOf({ components }, { $ref: '#/components/schemas/Enqueue' }).problems(body);
  const { status } = await api.post('/jobs', body);
  expect({ status, announced }).toMatchObject(announced.length === 0 ? { status: 202 } : { status: 400 });
});
