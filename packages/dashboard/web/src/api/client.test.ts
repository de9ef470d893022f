import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { renewalHeader } from '../../../src/contract/renewal.ts';

let renewals: (string | null)[];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', { baseURI: 'http://dashboard.test/', querySelector: () => null });
  vi.stubGlobal('fetch', (url: string, { method, headers }: RequestInit) => {
    if (method === undefined && !url.endsWith('session'))
      renewals.push(new Headers(headers).get(renewalHeader));
    return Promise.resolve(Response.json({ csrf: 'token' }));
  });
  renewals = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('for ten seconds after an action, what renews itself is read anew', async () => {
  const { get, post } = await import('./client.ts');
  const renew = (): Promise<unknown> => get('jobs/1', {}, { isRenewal: true });
  await renew();
  await post('actions/jobs', {});
  await renew();
  vi.advanceTimersByTime(9_000);
  await renew();
  vi.advanceTimersByTime(1_000);
  await renew();
  expect(renewals).toEqual(['1', null, null, '1']);
});
