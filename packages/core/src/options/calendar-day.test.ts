import { expect, test } from 'vitest';
import { isInCalendar } from './calendar-day.ts';

test.each([
  ['2028-02-29T08:00:00Z', true],
  ['2030-02-29T08:00:00Z', false],
  ['2030-02-31T08:00:00+01:00', false],
  ['2030-13-01T08:00:00Z', false],
])('the day of %s exists: %s', (iso, exists) => {
  expect(isInCalendar(iso)).toBe(exists);
});
