import { expect, test } from 'vitest';
import { leadText } from './lead.ts';

test.each([
  ['jobs', 0, '0 jobs', '0 jobs by weight'],
  ['jobs', 2_500.25, '2,500.3 jobs', '2500.25 jobs by weight'],
  ['cost', 3, '3 of cost', '3 of cost by weight'],
  ['time', 16_935.4, '16 s', '16,935 ms of worker time by weight'],
] as const)('a lead in %s of %d', (unit, lead, shown, whole) => {
  expect(leadText({ lead, unit })).toEqual({ shown, whole });
});
