import { describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);

const big = (bytes: number): string => JSON.stringify({ a: 'x'.repeat(bytes) });
const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
/** A value that no error message may contain. */
const secret = 'c4n4ry';

/** Rules of a job, each with a value that breaks this rule and no other. */
const rules: readonly (readonly [string, string, unknown])[] = [
  ['queue_attributes_check', 'attributes', '[]'],
  ['queue_attributes_check', 'attributes', '{"a": {}}'],
  ['queue_attributes_check', 'attributes', '{"a": [[]]}'],
  ['queue_attributes_check', 'attributes', '{"a": -1e400}'],
  ['queue_attributes_check', 'attributes', '{"a": 1e-400}'],
  ['queue_attributes_size', 'attributes', big(20_000)],
  ['queue_checkpoint_size', 'checkpoint', big(400_000)],
  ['queue_checkpoint_size', 'checkpoint', deep(501)],
  ['queue_crashes_check', 'crashes', -1],
  ['queue_created_check', 'created', 'infinity'],
  ['queue_errors_check', 'errors', '{}'],
  ['queue_expires_at_check', 'expires_at', '-infinity'],
  ['queue_key_check', 'key', 'k'.repeat(201)],
  ['queue_max_crashes_check', 'max_crashes', 0],
  ['queue_max_crashes_check', 'max_crashes', 1_001],
  ['queue_max_tries_check', 'max_tries', 0],
  ['queue_max_tries_check', 'max_tries', 1_001],
  ['queue_payload_size', 'payload', big(400_000)],
  ['queue_payload_size', 'payload', deep(501)],
  ['queue_payload_size', 'payload', '[1e131071,1e131071,1e131071]'],
  ['queue_payload_version_check', 'payload_version', 0],
  ['queue_queue_check', 'queue', ''],
  ['queue_queue_check', 'queue', 'q'.repeat(101)],
  ['queue_retry_check', 'retry', '[]'],
  ['queue_retry_check', 'retry', '{"base": "20s"}'],
  ['queue_retry_check', 'retry', '{"kind": "expo"}'],
  ['queue_retry_check', 'retry', '{"baseMs": "20"}'],
  ['queue_retry_check', 'retry', '{"baseMs": null}'],
  ['queue_retry_check', 'retry', '{"maxMs": 1e131071}'],
  ['queue_retry_check', 'retry', '{"jitter": -0.1}'],
  ['queue_retry_check', 'retry', '{"factor": 0}'],
  ['queue_retry_size', 'retry', `{"jitter": 0.${'0'.repeat(5_000)}}`],
  ['queue_run_after_check', 'run_after', 'infinity'],
  ['queue_task_check', 'task', ''],
  ['queue_task_check', 'task', 't'.repeat(201)],
  ['queue_timeout_check', 'timeout', '0'],
  ['queue_timeout_check', 'timeout', '-1 second'],
  ['queue_timeout_check', 'timeout', '1 microsecond'],
  ['queue_timeout_check', 'timeout', '300000 years'],
  ['queue_timeout_check', 'timeout', '1 month -31 days'],
  ['queue_trace_check', 'trace', '1'],
  ['queue_trace_size', 'trace', big(5_000)],
  ['queue_tries_check', 'tries', -1],
  ['queue_unique_key_check', 'unique_key', ''],
  ['queue_unique_key_check', 'unique_key', 'u'.repeat(501)],
];

/** Characters of four bytes, which a row of an index can't compress. */
const wide = (characters: number): string =>
  String.fromCodePoint(...Array.from({ length: characters }, (_, n) => 0x10000 + ((n * 7919) % 65_536)));

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
      timeout: '3650 days',
      attributes:
        '{"a": 1.7976931348623157e308, "b": -1.7976931348623157e308, "c": 5e-324, "d": null, "e": "", "f": false}',
      payload: deep(500),
      retry: '{"kind": "linear", "baseMs": 0, "maxMs": 3.2e11, "factor": 1000, "jitter": 1}',
      trace: '{}',
      errors: '[]',
    };
    await expect(ground.insert(most)).resolves.toEqual(expect.any(String));
    const widest = { queue: wide(100), task: wide(200), key: wide(200), unique_key: wide(450) };
    await expect(ground.insert(widest)).resolves.toEqual(expect.any(String));
    await expect(ground.insert({ ...widest, unique_key: wide(451) })).rejects.toMatchObject({
      constraint: 'queue_unique_key_check',
    });
  });

  test('a backoff that is refused is told by the names that SQL has for it, of a job and of a schedule', async () => {
    await expect(ground.insert({ retry: '{"base": "20s"}' })).rejects.toMatchObject({
      hint: expect.stringMatching(
        /^retry takes kind \(fixed, linear or exponential\), baseMs and maxMs .*, factor .*, jitter/,
      ),
    });
    const schedule = (options: string): Promise<unknown> =>
      ground.sql(
        `insert into pgqueue.schedule (name, cron, task, options) values (gen_random_uuid()::text, '* * * * *', 'hello', $1)`,
        [options],
      );
    await expect(schedule('{"retry": {"base": "20s"}}')).rejects.toMatchObject({
      code: '23514',
      constraint: 'schedule_retry_check',
    });
    await schedule('{"retry": {"kind": "fixed", "baseMs": 20000, "factor": 2.5, "maxMs": 0, "jitter": 0}}');
    await schedule('{"retry": null}');
    await schedule('{}');
  });

  test.each(['since', 'next_slot', 'last_slot'])(
    '%s of a schedule is a time: none could be listed beside one without end',
    (column) =>
      expect(
        ground.sql(
          `insert into pgqueue.schedule (name, cron, task, ${column}) values ('endless', '* * * * *', 'hello', 'infinity')`,
        ),
      ).rejects.toMatchObject({ code: '23514', constraint: `schedule_${column}_check` }),
  );
});
