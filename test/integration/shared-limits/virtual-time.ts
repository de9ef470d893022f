import type { Database } from '@pgqueue/postgres';
import { expect } from 'vitest';

/** Makes `lease_limit_at`, for tests in virtual time: `lease_limit`, with the time in front of its arguments. */
export async function createLeaseLimitAt({ query }: Database): Promise<void> {
  const [found] = await query<{ text: string }>(
    `select pg_get_functiondef('pgqueue.lease_limit'::regproc) as text`,
    [],
  );
  let text = found?.text ?? '';
  for (const [from, to] of [
    ['lease_limit(', 'lease_limit_at(p_now timestamptz, '],
    ['v_now := clock_timestamp();', 'v_now := p_now;'],
  ] as const) {
    expect(text).toContain(from);
    text = text.replace(from, to);
  }
  await query(text, []);
}
