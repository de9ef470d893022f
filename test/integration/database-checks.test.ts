import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Ground } from './database-support.ts';
import { openGround } from './database-support.ts';

let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());

const big = (bytes: number): string => JSON.stringify({ a: 'x'.repeat(bytes) });
/** What no refusal may tell. */
const secret = 'c4n4ry';

/** Each rule of a job, and what breaks it and no other. */
const rules: readonly (readonly [string, string, unknown])[] = [
  ['queue_attributes_check', 'attributes', '[]'],
  ['queue_attributes_size', 'attributes', big(20_000)],
  ['queue_checkpoint_size', 'checkpoint', big(300_000)],
  ['queue_crashes_check', 'crashes', -1],
  ['queue_created_check', 'created', 'infinity'],
  ['queue_errors_check', 'errors', '{}'],
  ['queue_expires_at_check', 'expires_at', '-infinity'],
  ['queue_key_check', 'key', 'k'.repeat(201)],
  ['queue_max_crashes_check', 'max_crashes', 0],
  ['queue_max_crashes_check', 'max_crashes', 1_001],
  ['queue_max_tries_check', 'max_tries', 0],
  ['queue_max_tries_check', 'max_tries', 1_001],
  ['queue_payload_size', 'payload', big(300_000)],
  ['queue_payload_version_check', 'payload_version', 0],
  ['queue_queue_check', 'queue', ''],
  ['queue_queue_check', 'queue', 'q'.repeat(101)],
  ['queue_retry_check', 'retry', '[]'],
  ['queue_retry_size', 'retry', big(5_000)],
  ['queue_run_after_check', 'run_after', 'infinity'],
  ['queue_task_check', 'task', ''],
  ['queue_task_check', 'task', 't'.repeat(201)],
  ['queue_timeout_check', 'timeout', '0'],
  ['queue_timeout_check', 'timeout', '-1 second'],
  ['queue_trace_check', 'trace', '1'],
  ['queue_trace_size', 'trace', big(5_000)],
  ['queue_tries_check', 'tries', -1],
  ['queue_unique_key_check', 'unique_key', ''],
  ['queue_unique_key_check', 'unique_key', 'u'.repeat(501)],
];

describe('what a job must be', () => {
  test('each rule has a case here', async () => {
    const body = String(await ground.one(`select prosrc from pg_proc where proname = 'check_job'`));
    const named = Array.from(body.matchAll(/\('(queue_\w+)',/g), ([, name]) => name);
    expect(new Set(rules.map(([rule]) => rule))).toEqual(new Set(named));
  });

  test.each(rules)('%s: %s', async (rule, column, value) => {
    const row = { task: 'hello', payload: `{"secret": "${secret}"}`, [column]: value };
    const refusals = [
      await ground.insert(row).catch((error: unknown) => error),
      await ground
        .insert()
        .then((id) => ground.sql(`update pgqueue.queue set ${column} = $2 where id = $1`, [id, value]))
        .catch((error: unknown) => error),
    ];
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({
        code: '23514',
        constraint: rule,
        table: 'queue',
        message: `new row for relation "queue" violates check constraint "${rule}"`,
      });
      expect(JSON.stringify(refusal)).not.toContain(secret);
    }
  });

  test('the most that it may be', async () => {
    const most = {
      queue: 'q'.repeat(100),
      task: 't'.repeat(200),
      key: 'k'.repeat(200),
      unique_key: 'u'.repeat(500),
      max_tries: 1_000,
      max_crashes: 1_000,
      timeout: '1 microsecond',
      retry: '{}',
      trace: '{}',
      errors: '[]',
    };
    await expect(ground.insert(most)).resolves.toEqual(expect.any(String));
  });
});
