import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PgQueueError } from '../errors.ts';
import { stepOfNeed } from './needs.ts';
import { defineTask } from './task.ts';

const payload = z.object({});
const page = defineTask({ name: 'page', payload });

describe('the needs of a task', () => {
  test('are on the task and on its jobs, as they were given', () => {
    const ok = z.string();
    const sum = defineTask({ name: 'sum', payload, needs: { page, ok } });
    expect(sum.needs).toEqual({ page, ok });
    expect(sum.job({}).needs).toBe(sum.needs);
    expect(page.needs).toEqual({});
    expect(page.job({})).not.toHaveProperty('needs');
  });

  test.each<[unknown, string]>([
    [{ page: 5 }, 'needs.page must be a task, or the schema of a signal, not 5'],
    [[page], 'needs must be an object with a task or a schema for each step, not a list'],
    [{ '': page }, 'a name in needs must be a text of 1 to 200 characters, not ""'],
    [{ ['__proto__']: page }, 'needs must not have a name __proto__'],
    [{ page: page.job({}) }, 'needs.page must be a task, or the schema of a signal, not an object'],
  ])('%o are refused', (needs, problem) => {
    const make = (): unknown => defineTask({ name: 'sum', payload, needs: needs as never });
    expect(make).toThrow(PgQueueError);
    expect(make).toThrow(problem);
  });
});

test.each<[string, readonly string[], string | undefined]>([
  ['pages', ['pages'], 'pages'],
  ['pages', ['site.x', 'site.pages'], 'site.pages'],
  // beside each other under one prefix
  ['pages', ['site.a.pages', 'site.pages'], 'site.pages'],
  ['pages', ['a.pages', 'pages'], 'pages'],
  ['pages', ['otherpages'], undefined],
  ['pages', [], undefined],
])('%s among %j is %s', (need, steps, step) => {
  expect(stepOfNeed(need, steps)).toBe(step);
});
