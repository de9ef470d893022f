import { serveDashboard } from '@pgqueue/dashboard';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiAnswer, Program } from './program.ts';
import { idsOf, program } from './program.ts';
import type { Claimed, DashboardBench } from '../support.ts';
import { openDashboardBench, until } from '../support.ts';
import { codecOf } from '../../../support/encryption/keys.ts';

let bench: DashboardBench;
let api: Program;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_api_results_test');
  api = program(bench.dashboard({ api: true }), 'shop:producer');
});
afterAll(() => bench.close());

const missing = '00000000-0000-7000-8000-000000000000';
const finish = ({ id, token }: Claimed, result: unknown = { ok: true }): Promise<unknown> =>
  bench.sql('select $schema.ack($1::uuid, $2::uuid, $3)', [id, token, JSON.stringify(result)]);
const runAll = async (result?: unknown): Promise<void> => {
  for (const job of await bench.claim('w', 10)) await finish(job, result);
};

test('with a codec, payloads are encrypted and results decrypted; without its key, the answer names it', async () => {
  const codec = codecOf(['new']);
  const [own, other] = [codec, codecOf(['other'])].map((given) =>
    program(bench.dashboard({ api: true, codec: given }), 'shop:producer'),
  );
  const [id = ''] = idsOf(
    (await own?.post('/jobs', { task: 'hello', payload: { secret: 'canary' } })) as ApiAnswer,
  );
  const [row] = await bench.sql('select payload from $schema.queue where id = $1', [id]);
  expect(row).toMatchObject({ payload: { $enc: expect.stringMatching('^1:new:') as string } });
  const place = { id, field: 'result', name: 'hello' } as const;
  await runAll(JSON.parse(codec.encode('{"words":6}', place)));
  expect(await own?.get(`/jobs/${id}/result`)).toMatchObject({ status: 200, body: { result: { words: 6 } } });
  const unread = await other?.get(`/jobs/${id}/result`);
  expect(unread?.body.detail).toContain('"new"');
});

describe('GET /jobs/{id}/result', () => {
  const enqueue = async (body: object = { task: 'hello' }): Promise<string> =>
    idsOf(await api.post('/jobs', body))[0] ?? '';
  const result = (id: string, timeout?: number): Promise<ApiAnswer> =>
    api.get(`/jobs/${id}/result${timeout === undefined ? '' : `?timeout=${timeout}`}`);

  test('tells of every state', async () => {
    const id = await enqueue();
    expect(await result(id.toUpperCase())).toMatchObject({ status: 202, body: { id, status: 'pending' } });
    const [claimed] = await bench.claim('w', 1);
    expect(await result(id, 0.01)).toMatchObject({ status: 202, body: { id, status: 'running' } });
    if (claimed !== undefined) await finish(claimed, { words: 6 });
    expect(await result(id)).toMatchObject({
      status: 200,
      body: { id, status: 'done', result: { words: 6 }, error: null },
    });
    const later = await enqueue({ task: 'hello', delay: '1h' });
    expect(await result(later)).toMatchObject({ status: 202, body: { status: 'delayed' } });
    await bench.sql('select from $schema.cancel(array[$1::uuid])', [later]);
    expect(await result(later)).toMatchObject({
      status: 200,
      body: { status: 'cancelled', result: null, error: null },
    });
    const dying = await enqueue();
    const [dead] = await bench.claim('w', 1);
    await bench.sql(
      `select from $schema.settle(array[$1::uuid], array[$2::uuid], array['dead'], array[0::float8], array['{"message": "no disk", "stack": "at secret.ts"}'])`,
      [dead?.id, dead?.token],
    );
    expect((await result(dying)).body).toEqual({
      id: dying,
      status: 'dead',
      result: null,
      error: { reason: 'gave_up', message: 'no disk' },
    });
    expect(await result(missing)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('of a job that is done and has none, or one that was lost, says so', async () => {
    const [none, lost] = [await enqueue(), await enqueue()];
    for (const job of await bench.claim('w', 10))
      await finish(job, job.id === none ? null : { pgqueue_error: 'it was too large' });
    expect((await result(none)).body).toMatchObject({ status: 'done', result: null, error: null });
    expect((await result(lost)).body).toMatchObject({
      status: 'done',
      result: null,
      error: { reason: 'result_lost', message: 'it was too large' },
    });
  });

  test('waits until the job has ended', async () => {
    const id = await enqueue();
    const waited = result(id, 60);
    await runAll('there');
    expect(await waited).toMatchObject({ status: 200, body: { status: 'done', result: 'there' } });
  });

  test('has a bound on waits at a time; a client that goes away, and a stop, end theirs', async () => {
    const own = bench.dashboard({ api: { waitsMax: 1 } });
    const server = await serveDashboard(own, { port: 0 });
    const id = await enqueue();
    const at = `${server.url}api/v1/jobs/${id}/result`;
    const ask = (timeout: number, signal: AbortSignal | null = null): Promise<Response> =>
      fetch(`${at}?timeout=${timeout}`, { headers: { 'x-user': 'shop:producer' }, signal });
    const client = new AbortController();
    const gone = ask(60, client.signal).catch((error: unknown) => (error as Error).name);
    const busy = async (): Promise<boolean> => (await ask(0)).status === 503;
    await until('somebody waits', busy);
    const refused = await ask(0);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    client.abort();
    expect(await gone).toBe('AbortError');
    await until('its wait to end', async () => (await ask(0)).status === 202);
    const last = ask(60);
    await until('somebody waits again', busy);
    const stopped = server.close();
    const answer = await last;
    expect([answer.status, await answer.json()]).toEqual([503, expect.objectContaining({ code: 'closed' })]);
    await stopped;
  });

  test.each([
    '?timeout=61',
    '?timeout=-1',
    '?timeout=1e1',
    '?timeout=',
    '?timeout=x',
    '?timeout=1&timeout=1',
    '?t=1',
  ])('refuses %s', async (query) => {
    expect(await api.get(`/jobs/${missing}/result${query}`)).toMatchObject({
      status: 400,
      body: { code: 'bad_request' },
    });
  });
});

describe('signals', () => {
  test('of a flow get their value once', async () => {
    const [row] = await bench.sql<{ id: string }>('select flow_id as id from $schema.start_flow($1::jsonb)', [
      JSON.stringify({ name: 'order', steps: [{ name: 'paid / in full', kind: 'signal' }] }),
    ]);
    const path = `/flows/${row?.id}/signals/${encodeURIComponent('paid / in full')}`;
    const give = async (value: unknown): Promise<unknown> => (await api.post(path, { value })).body;
    expect([await give({ by: 'card' }), await give('late')]).toEqual([
      { outcome: 'signalled' },
      { outcome: 'repeated' },
    ]);
    const [stored] = await bench.sql('select result from $schema.flow_result where flow = $1::uuid', [
      row?.id,
    ]);
    expect(stored).toEqual({ result: { by: 'card' } });
    expect(await api.post(`/flows/${missing}/signals/paid`, { value: 1 })).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
  });

  test('of a job are kept for its handler', async () => {
    const [id] = idsOf(await api.post('/jobs', { task: 'hello' }));
    const give = (job: string | undefined): Promise<ApiAnswer> =>
      api.post(`/jobs/${job}/signals/approved`, { value: true });
    expect((await give(id)).body).toEqual({ outcome: 'signalled' });
    expect((await give(id)).body).toEqual({ outcome: 'repeated' });
    expect(await give(missing)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('without a value is told so', async () => {
    expect(await api.post(`/jobs/${missing}/signals/a`, {})).toMatchObject({
      body: { detail: 'body.value must be given' },
    });
  });

  test.each([
    ['no value', `/jobs/${missing}/signals/a`, {}, 'bad_request'],
    ['something beside the value', `/jobs/${missing}/signals/a`, { value: 1, other: 1 }, 'bad_request'],
    ['no id', '/flows/x/signals/a', { value: 1 }, 'invalid_flow'],
    ['a long name', `/flows/${missing}/signals/${'x'.repeat(201)}`, { value: 1 }, 'invalid_flow'],
    ['a large value', `/flows/${missing}/signals/a`, { value: 'x'.repeat(262_145) }, 'invalid_flow'],
  ])('with %s are refused', async (_, path, body, code) => {
    expect(await api.post(path, body)).toMatchObject({ status: 400, body: { code } });
  });
});
