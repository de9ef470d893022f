import { describe, expect, test } from 'vitest';
import { latestSlot, nextSlot, scheduleProblems } from './slots.ts';

const berlin = 'Europe/Berlin';
const at = (text: string): number => new Date(text).getTime();

function slots(cron: string, from: string, count: number): readonly string[] {
  const found: string[] = [];
  let after: number | null = at(from);
  while (after !== null && found.length < count) {
    after = nextSlot(cron, berlin, after);
    if (after !== null) found.push(new Date(after).toISOString().slice(0, 16));
  }
  return found;
}

describe('daylight saving', () => {
  test('a slot in the hour that is skipped comes right after it, once', () => {
    expect(slots('30 2 * * *', '2027-03-27T12:00Z', 2)).toEqual(['2027-03-28T01:00', '2027-03-29T00:30']);
  });

  test('a slot in the hour that comes twice comes once', () => {
    expect(slots('30 2 * * *', '2027-10-30T12:00Z', 2)).toEqual(['2027-10-31T00:30', '2027-11-01T01:30']);
  });

  test.each([
    ['0 2,14 * * *', ['03-28T01:00', '03-28T12:00'], ['10-31T00:00', '10-31T13:00']],
    ['0,30 2 * * *', ['03-28T01:00', '03-29T00:00'], ['10-31T00:00', '10-31T00:30', '11-01T01:00']],
    [
      '30 1-3 * * *',
      ['03-28T00:30', '03-28T01:00', '03-28T01:30', '03-28T23:30'],
      ['10-30T23:30', '10-31T00:30', '10-31T02:30', '11-01T00:30'],
    ],
  ])('so do several times of a day: %s', (cron, spring, autumn) => {
    const dates = (from: string, { length }: readonly string[]): readonly string[] =>
      slots(cron, from, length).map((slot) => slot.slice('2027-'.length));
    expect(dates('2027-03-27T23:00Z', spring)).toEqual(spring);
    expect(dates('2027-10-30T23:00Z', autumn)).toEqual(autumn);
  });

  test('an expression with a step leaves out the hour that is skipped, and takes both that come twice', () => {
    expect(slots('0 */2 * * *', '2027-03-27T23:00Z', 2)).toEqual(['2027-03-28T02:00', '2027-03-28T04:00']);
    expect(slots('0 */2 * * *', '2027-10-30T22:00Z', 3)).toEqual([
      '2027-10-31T00:00',
      '2027-10-31T01:00',
      '2027-10-31T03:00',
    ]);
  });

  test('an expression that repeats within the hour goes on through both', () => {
    expect(slots('*/30 * * * *', '2027-10-30T23:45Z', 5)).toEqual([
      '2027-10-31T00:00',
      '2027-10-31T00:30',
      '2027-10-31T01:00',
      '2027-10-31T01:30',
      '2027-10-31T02:00',
    ]);
    expect(slots('*/30 * * * *', '2027-03-28T00:15Z', 3)).toEqual([
      '2027-03-28T00:30',
      '2027-03-28T01:00',
      '2027-03-28T01:30',
    ]);
  });
});

describe('the latest slot', () => {
  test.each([
    ['* * * * * *', '2026-01-01T00:00:00Z', '2026-03-01T00:00:00.900Z', '2026-03-01T00:00:00Z'],
    ['0 3 * * *', '2026-01-01T02:00Z', '2026-01-09T01:59Z', '2026-01-08T02:00Z'],
    ['0 3 * * *', '2026-01-09T02:00Z', '2026-01-09T02:00Z', '2026-01-09T02:00Z'],
    ['30 2 * * *', '2027-03-20T01:30Z', '2027-03-28T12:00Z', '2027-03-28T01:00Z'],
  ])('%s from %s to %s', (cron, from, to, expected) => {
    const found = latestSlot(cron, berlin, { fromMs: at(from), toMs: at(to) });
    expect(found).toBe(at(expected));
  });

  test('none, where none was missed', () => {
    expect(
      latestSlot('0 3 * * *', berlin, { fromMs: at('2026-01-09T03:00Z'), toMs: at('2026-01-09T12:00Z') }),
    ).toBe(null);
    expect(nextSlot('0 0 30 2 *', 'UTC', at('2026-01-01'))).toBe(null);
  });
});

test('what is wrong with a schedule is said', () => {
  expect(scheduleProblems('*/5 * * * *', 'America/New_York')).toEqual([]);
  for (const [cron, zone] of [
    ['often', 'UTC'],
    ['99 * * * *', 'UTC'],
    ['', 'UTC'],
    ['* * * * *', 'Moon/Sea'],
  ] as const) {
    expect(scheduleProblems(cron, zone)).toEqual([expect.stringContaining(JSON.stringify(cron))]);
  }
});

test('a time zone that is none is named before the expression is looked at', () => {
  expect(scheduleProblems('* * * * *', 'Moon/Sea')).toEqual([
    'cron "* * * * *" in time zone "Moon/Sea": the time zone must be an IANA name, such as "Europe/Berlin" or "UTC"',
  ]);
});

test('an expression that never comes is a problem; one whose time has passed is from then on', () => {
  for (const cron of ['0 0 31 2 *', '0 0 30 2 *', '0 0 31 4,6,9,11 *'])
    expect(scheduleProblems(cron)).toEqual([
      expect.stringMatching(/there is no such time: it would never come$/),
    ]);
  expect(scheduleProblems('0 0 29 2 *', 'UTC', at('2026-06-01'))).toEqual([]);
  const once = '0 0 22 1 1 * 2026';
  expect(scheduleProblems(once)).toEqual([]);
  expect(scheduleProblems(once, 'UTC', at('2026-06-01'))).toEqual([expect.stringContaining('from now on')]);
});
