import { expect, test } from 'vitest';
import { limits } from './actors/limits.ts';
import type { End, Item } from './judge.ts';
import { judge } from './judge.ts';
import type { Sent } from './load.ts';

const sent = (n: number, delayed = false): Sent => ({ id: `job-${n}`, key: 'acme', n, delayed });
const item = (n: number, insertedMs: number, endedMs: number, site = 'site-1'): Item => ({
  id: `job-${n}`,
  key: 'acme',
  queue: 'default',
  insertedMs,
  dispatchedMs: insertedMs,
  endedMs,
  site,
});
const end = (n: number, site = 'site-1'): End => ({ id: `job-${n}`, site, outcome: 'done' });

test('a run in which every job ends once, alone and in order, is without faults', () => {
  const records = {
    sent: [sent(0), sent(1), sent(2, true), sent(3)],
    items: [item(0, 1, 2), item(1, 3, 4), item(3, 5, 6, 'site-2'), item(2, 7, 8, 'site-2')],
    ends: [end(0), end(1), end(2, 'site-2'), end(3, 'site-2')],
  };
  expect(judge(records)).toEqual([]);
});

test('lost and doubled jobs, two at once and wrong orders are told', () => {
  const records = {
    sent: [sent(0), sent(1), sent(2)],
    items: [item(1, 1, 3), item(0, 2, 4, 'site-2')],
    ends: [end(0), end(0, 'site-2'), end(1)],
  };
  expect(judge(records)).toEqual([
    'job job-2 of acme is lost',
    'job job-0 has ended 2 times: done in site-1, done in site-2',
    '2 jobs of acme at once at 1970-01-01T00:00:00.002Z',
    'acme: job 1 (job-1) began in site-1 before job 0 in site-2',
  ]);
});

test('a limit or a rate over all installations that was exceeded is told', () => {
  const calls = Array.from({ length: limits.calls + 1 }, (_, n) => ({
    ...item(n, n, 100, `site-${1 + (n % 4)}`),
    key: `key-${n}`,
    queue: 'calls',
  }));
  const mails = Array.from({ length: limits.mails.burst + 2 }, (_, n) => ({
    ...item(100 + n, n, n + 1, `site-${1 + (n % 4)}`),
    key: `mail-${n}`,
    queue: 'mails',
  }));
  const records = { sent: [], items: [...calls.slice(0, -1), ...mails.slice(0, -2)], ends: [] };
  expect(judge(records)).toEqual([]);
  expect(judge({ ...records, items: [...calls, ...mails] })).toEqual([
    '5 calls at once at 1970-01-01T00:00:00.004Z',
    expect.stringMatching(/^1\.\d+ mails too many between 1970/) as string,
  ]);
});
