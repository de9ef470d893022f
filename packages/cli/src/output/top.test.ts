import { EventEmitter } from 'node:events';
import type { Top } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { cutTo, fitted, lengthOf } from './fit.ts';
import { frame, showLive } from './live.ts';
import type { Terminal } from './live.ts';
import { flowsText, topLines } from './top.ts';

const queue = {
  paused: false,
  pool: 'default',
  retentionMs: 1,
  keyPending: null,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  weight: 1,
  exact: true,
  delayed: 0,
  pending: 3,
  ready: 1,
  running: 2,
  dead: 0,
  oldestMs: 61_000,
  claimAgeMs: 4_000,
  retryRate: 0.25,
  windowMs: 300_000,
  failedAttempts: 1,
  attempts: 4,
  done5m: 3,
  dead5m: 0,
} as const;

const noFlows: Top['flows'] = {
  open: 0,
  more: false,
  oldestMs: null,
  done5m: 0,
  failed5m: 0,
  cancelled5m: 0,
  more5m: false,
};

const top: Top = {
  schema: 'pgqueue',
  schemaVersion: 21,
  leader: { leader: 'host-1', epoch: 4, expiresInMs: 4_000 },
  scheduler: null,
  wanted: null,
  queues: [
    {
      ...queue,
      queue: 'a-queue-with-a-name-that-is-much-too-long-for-a-line',
      held: { key_concurrency: 2, no_free_slot: 12 },
    },
    { ...queue, queue: 'mail', exact: false, pending: 1_234_567, held: null },
    { ...queue, queue: 'evil\u001b[31m\nname', paused: true, pending: 0, held: {} },
  ],
  totals: {
    delayed: 0,
    pending: 1_234_570,
    ready: 3,
    running: 6,
    dead: 0,
    exact: false,
    oldestMs: 61_000,
    claimAgeMs: 4_000,
    retryRate: 0.25,
    donePerSecond: 0.01,
  },
  flows: { ...noFlows, open: 10_000, more: true, oldestMs: 182_000, done5m: 70, failed5m: 3 },
  nodes: { alive: 1, draining: 0, lost: 0, left: 1, overdue: 0, slots: 10, slotsInUse: 6, leases: 7 },
  oldestSnapshot: null,
  tables: [],
  warnings: [
    {
      kind: 'silent_leader',
      message: 'scheduler host-1 leads, but has reported nothing for 95 s: does it still tick?',
    },
    { kind: 'silent_leader', message: 'another' },
  ],
  keys: [
    { queue: 'mail', key: 'acme', pending: 1_000_000, ready: 2, running: 3, exact: false },
    { queue: 'mail', key: null, pending: 10, ready: 0, running: 0, exact: false },
  ],
  slowest: Array.from({ length: 10 }, (_, n) => ({
    id: `0198a3c2-5b1e-7000-8000-00000000000${n}`,
    queue: 'mail',
    task: 'send-a-mail',
    key: '顧客の名前',
    node: 'host-1-4711-abcdef',
    runningMs: 60_000 * (10 - n),
    leaseEndsInMs: 1_000,
    tries: 1,
    crashes: 0,
    cancelled: n === 0,
  })),
  everyNode: [
    {
      id: 'host-1-4711-abcdef',
      state: 'alive',
      overdue: false,
      pool: 'default',
      slots: 10,
      slotsInUse: 6,
      hung: 0,
      leases: 7,
      tasks: {},
      heartbeatAgeMs: 1_200,
      ageMs: 3_600_000,
      software: '',
    },
  ],
};

test('it fits 80 columns and 24 rows, and tells of everything', () => {
  const lines = topLines(top, { columns: 80, rows: 24 });
  expect(lines.length).toBeLessThanOrEqual(24);
  expect(lines.filter((line) => lengthOf(line) > 80)).toEqual([]);
  const text = lines.join('\n');
  for (const part of [
    'host-1 leads (epoch 4)',
    '~1234567',
    'WARN',
    'WARN (1 of 2)',
    'acme',
    'ending send',
    'flows over 10000 open, the oldest 3m 2s old; in 5m: 70 done, 3 failed',
    'slots 6/10',
    '6/10',
  ]) {
    expect(text).toContain(part);
  }
  expect(text).toMatch(/evil\\x1b.* paused$/m);
  expect(topLines(top, { columns: 200, rows: 60 }).join('\n')).toContain('evil\\x1b[31m\\nname');
  expect(text).not.toContain('another');
});

test.each([
  [{}, undefined],
  [{ open: 1, oldestMs: 1_000 }, '1 open, the oldest 1s old'],
  [{ cancelled5m: 2 }, 'none open; in 5m: 2 cancelled'],
  [
    { open: 2, oldestMs: 1_000, done5m: 9_999, failed5m: 1, more5m: true },
    '2 open, the oldest 1s old; in 5m, of the newest 10000: 9999 done, 1 failed',
  ],
])('flows %j are told as %j', (flows, text) => {
  expect(flowsText({ ...noFlows, ...flows })).toBe(text);
});

test.each([
  [20, 5],
  [40, 12],
  [200, 60],
])('it fits %i columns and %i rows', (columns, rows) => {
  const lines = topLines(top, { columns, rows });
  expect(lines.length).toBeLessThanOrEqual(rows);
  expect(lines.filter((line) => lengthOf(line) > columns)).toEqual([]);
});

test('names give way to numbers, and wide letters count as what they take', () => {
  const columns = [
    { head: 'name', cut: true },
    { head: 'jobs', right: true },
  ] as const;
  expect(
    fitted(
      columns,
      [
        ['a very long name', 7],
        ['b', 12_345],
      ],
      17,
    ),
  ).toEqual(['NAME         JOBS', 'a very lo…      7', 'b           12345']);
  expect([cutTo('日本語', 5), lengthOf('日本語')]).toEqual(['日本…', 6]);
});

/** A terminal that records what was written to it. */
function terminal(): {
  readonly it: Terminal;
  readonly keys: EventEmitter;
  readonly said: string[];
  readonly raw: boolean[];
} {
  const keys = new EventEmitter();
  const said: string[] = [];
  const raw: boolean[] = [];
  const input = Object.assign(keys, {
    setRawMode: (on: boolean) => raw.push(on),
    resume: () => {},
    pause: () => {},
  });
  const output = Object.assign(new EventEmitter(), {
    columns: 40,
    rows: 10,
    write: (text: string) => said.push(text),
  });
  return { it: { input: input as unknown as Terminal['input'], output }, keys, said, raw };
}

test.each(['q', '\u0003', '\u001b'])('%j ends it, and the terminal is as it was', async (pressed) => {
  const { it, keys, said, raw } = terminal();
  let reads = 0;
  await showLive({
    terminal: it,
    intervalMs: 1,
    clean: (text) => text,
    signal: new AbortController().signal,
    read: () => {
      reads += 1;
      if (reads === 3) keys.emit('data', pressed);
      return Promise.resolve(() => [`frame ${reads}`]);
    },
  });
  expect(said[0]).toBe('\u001b[?1049h\u001b[?25l\u001b[?7l');
  expect(said).toContain(frame(['frame 1']));
  expect(said.at(-1)).toBe('\u001b[?7h\u001b[?25h\u001b[?1049l');
  expect(raw).toEqual([true, false]);
  expect([keys.listenerCount('data'), process.listenerCount('exit')]).toEqual([
    0,
    process.listenerCount('exit'),
  ]);
});

test('a reading that fails is said, and what was read before stays', async () => {
  const { it, keys, said } = terminal();
  let reads = 0;
  await showLive({
    terminal: it,
    intervalMs: 1,
    clean: (text) => text.replace('secret', '***'),
    signal: new AbortController().signal,
    read: () => {
      reads += 1;
      if (reads === 3) keys.emit('data', 'q');
      return reads === 1 ? Promise.resolve(() => ['before']) : Promise.reject(new Error('gone: secret'));
    },
  });
  expect(said).toContain(frame(['not read since: gone: ***', 'before']));
});

test.each([
  [
    { columns: 132, rows: 43 },
    { columns: 132, rows: 43 },
  ],
  [
    { columns: 0, rows: 0 },
    { columns: 80, rows: 24 },
  ],
  [{}, { columns: 80, rows: 24 }],
])('a terminal that tells %j is drawn on as %j', async (told, size) => {
  const { it, keys, said } = terminal();
  const output = Object.assign(new EventEmitter(), { write: it.output.write, ...told });
  await showLive({
    terminal: { ...it, output },
    intervalMs: 1,
    clean: (text) => text,
    signal: new AbortController().signal,
    read: () => {
      if (said.some((text) => text.includes('{"'))) keys.emit('data', 'q');
      return Promise.resolve((screen) => [JSON.stringify(screen)]);
    },
  });
  expect(said).toContain(frame([JSON.stringify(size)]));
});

test('a signal ends it while it reads', async () => {
  const { it, said } = terminal();
  const stopping = new AbortController();
  const { signal } = stopping;
  const clean = (text: string): string => text;
  const shown = showLive({ terminal: it, intervalMs: 1, clean, signal, read: () => new Promise(() => {}) });
  stopping.abort();
  await shown;
  expect(said.at(-1)).toContain('\u001b[?1049l');
});
