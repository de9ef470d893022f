import type { Candidate, Gate, Lane, Snapshot } from '@pgqueue/core';
import { neverMs } from '@pgqueue/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nextSlot } from '@pgqueue/postgres/internal';
import type { MaintenanceWindowOptions } from './window.ts';
import { maintenanceWindow } from './window.ts';

const hour = 3_600_000;
const at = (text: string): number => new Date(text).getTime();
const nightly = { name: 'backup', cron: '0 22 * * *', timezone: 'Europe/Berlin', durationMs: 8 * hour };

const job: Candidate = {
  id: 'j1',
  queue: 'mail',
  key: 'a',
  task: 't',
  version: 1,
  priority: 0,
  seq: 1,
  createdMs: 0,
  expiresMs: null,
  attributes: {},
  tries: 0,
};
const lane: Lane = { queue: 'mail', key: 'a', jobs: [job], more: false, retryDueMs: null, fresh: true };

/** Returns the gate's answer for a job at a given time. */
function ask(gate: Gate, nowMs: number, of: Candidate = job) {
  const snapshot: Snapshot = {
    nowMs,
    lanes: [lane],
    inFlight: [],
    settled: [],
    queues: {},
    pools: {},
    health: null,
    prepared: {},
    batchMax: 1,
  };
  const open = gate.open(snapshot, null);
  const verdict = open.admits(of, lane, false);
  return { verdict, nextMs: open.nextMs?.() ?? null, ...(verdict === 'admit' ? {} : open.why(of, lane)) };
}

describe('closed during', () => {
  const gate = maintenanceWindow({ ...nightly, mode: 'closed_during' });

  test('holds from the first millisecond to the last, and says until when', () => {
    const [begin, end] = [at('2027-01-10T21:00Z'), at('2027-01-11T05:00Z')];
    expect(ask(gate, begin - 1)).toEqual({ verdict: 'admit', nextMs: null });
    const held = {
      verdict: 'hold_lane',
      nextMs: end,
      untilMs: end,
      message: 'backup is under way until 2027-01-11 06:00:00 Europe/Berlin: nothing goes meanwhile',
    };
    expect(ask(gate, begin)).toEqual(held);
    expect(ask(gate, end - 1)).toEqual(held);
    expect(ask(gate, end)).toEqual({ verdict: 'admit', nextMs: null });
  });

  test.each([
    ['forward', '2027-03-27T21:00Z', '2027-03-28T05:00Z', '07:00:00'],
    ['back', '2027-10-30T20:00Z', '2027-10-31T04:00Z', '05:00:00'],
  ])(
    'in the night in which clocks are set %s, it begins by the wall clock and lasts as long as ever',
    (_way, from, to, local) => {
      expect(ask(gate, at(from) - 1).verdict).toBe('admit');
      expect(ask(gate, at(from))).toMatchObject({
        untilMs: at(to),
        message: expect.stringContaining(local) as string,
      });
      expect(ask(gate, at(to) - 1).verdict).toBe('hold_lane');
      expect(ask(gate, at(to)).verdict).toBe('admit');
    },
  );

  test('windows that overlap are one', () => {
    const twice = maintenanceWindow({
      ...nightly,
      cron: '0 22,23 * * *',
      timezone: 'UTC',
      durationMs: 2 * hour,
      mode: 'closed_during',
    });
    expect(ask(twice, at('2027-01-10T22:30Z')).untilMs).toBe(at('2027-01-11T01:00Z'));
    const always = maintenanceWindow({
      ...nightly,
      cron: '0 * * * *',
      durationMs: hour,
      mode: 'closed_during',
    });
    expect(ask(always, at('2027-01-10T22:30Z')).untilMs).toBeGreaterThan(at('2027-01-11T06:00Z'));
  });
});

describe('open during', () => {
  const gate = maintenanceWindow({ ...nightly, mode: 'open_during' });

  test('holds before, and says when it opens', () => {
    const begin = at('2027-01-10T21:00Z');
    expect(ask(gate, begin - hour)).toEqual({
      verdict: 'hold_lane',
      nextMs: begin,
      untilMs: begin,
      message: 'backup opens at 2027-01-10 22:00:00 Europe/Berlin: nothing goes before',
    });
    expect(ask(gate, begin)).toEqual({ verdict: 'admit', nextMs: null });
  });

  test('one that is over for ever says so', () => {
    const once = maintenanceWindow({ ...nightly, cron: '0 0 22 1 1 * 2026', mode: 'open_during' });
    expect(ask(once, at('2027-06-01T00:00Z'))).toMatchObject({
      untilMs: neverMs,
      message: 'backup never opens again',
    });
  });
});

test('concerns only what "when" says; then only those jobs are held, unless it goes by lanes', () => {
  const options: MaintenanceWindowOptions = {
    ...nightly,
    mode: 'closed_during',
    when: ({ queue }) => queue === 'mail',
  };
  const inside = at('2027-01-10T22:00Z');
  expect(ask(maintenanceWindow(options), inside).verdict).toBe('hold');
  expect(ask(maintenanceWindow({ ...options, lane: true }), inside).verdict).toBe('hold_lane');
  expect(ask(maintenanceWindow(options), inside, { ...job, queue: 'video' }).verdict).toBe('admit');
});

test('what it says depends on the time alone, not on what it was asked before', () => {
  const fresh = (): Gate => maintenanceWindow({ ...nightly, cron: '0 3,22 * * 1-5', mode: 'closed_during' });
  const times = fc.integer({ min: at('2027-03-20T00:00Z') / 60_000, max: at('2027-04-05T00:00Z') / 60_000 });
  fc.assert(
    fc.property(fc.array(times, { minLength: 2, maxLength: 6 }), (minutes) => {
      const gate = fresh();
      for (const minute of minutes) expect(ask(gate, minute * 60_000)).toEqual(ask(fresh(), minute * 60_000));
    }),
    { numRuns: 25, seed: 3 },
  );
});

test('holds exactly within the windows: every quarter of an hour over both changes of the clocks', () => {
  const gate = maintenanceWindow({
    ...nightly,
    cron: '30 1,2,13 * * *',
    durationMs: 0.75 * hour,
    mode: 'closed_during',
  });
  for (const [from, to] of [
    ['2027-03-27T00:00Z', '2027-03-29T00:00Z'],
    ['2027-10-30T00:00Z', '2027-11-01T00:00Z'],
  ] as const) {
    const slots: number[] = [];
    for (
      let slot = nextSlot('30 1,2,13 * * *', nightly.timezone, at(from) - 86_400_000);
      slot !== null && slot < at(to);
    ) {
      slots.push(slot);
      slot = nextSlot('30 1,2,13 * * *', nightly.timezone, slot);
    }
    for (let ms = at(from); ms < at(to); ms += hour / 4) {
      const inside = slots.some((slot) => ms >= slot && ms < slot + 0.75 * hour);
      expect([ms, ask(gate, ms).verdict]).toEqual([ms, inside ? 'hold_lane' : 'admit']);
    }
  }
});

test.each([
  [{ ...nightly, cron: 'every night' }, /gate backup: cron "every night"/],
  [{ ...nightly, timezone: 'Mars/Olympus' }, /Mars\/Olympus/],
  [{ ...nightly, durationMs: 0 }, 'gate backup: durationMs must be 1000 or more'],
])('%o is refused', (options, message) => {
  expect(() => maintenanceWindow({ ...options, mode: 'closed_during' })).toThrow(message);
});

test('a mode that is mistyped is refused: it would open the window that it is to close', () => {
  const mistyped = { name: 'night', cron: '0 2 * * *', durationMs: 3_600_000, mode: 'closed' };
  expect(() => maintenanceWindow(mistyped as never)).toThrow(
    /mode must be "closed_during" or "open_during", not "closed"/,
  );
});
