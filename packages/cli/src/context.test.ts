import { expect, test } from 'vitest';
import type { Context } from './context.ts';
import { databaseOptions } from './context.ts';

test('a command that only looks waits for 30 s, and one that may change much for 120 s', () => {
  const timeoutOf = (command: string): number | undefined =>
    databaseOptions({ settings: {} } as Context, command).queryTimeoutMs;
  for (const command of ['status', 'top', 'explain', 'list', 'show']) expect(timeoutOf(command)).toBe(30_000);
  for (const command of ['doctor', 'purge', 'cancel', 'redrive']) expect(timeoutOf(command)).toBe(120_000);
});
