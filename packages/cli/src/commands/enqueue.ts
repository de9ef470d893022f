import type { Attributes, Backoff, Duration, JobOptions, RetryOptions, Unique } from '@pgqueue/core';
import { InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';
import { codecOf, contextOf, databaseOptions } from '../context.ts';
import type { Moment } from '../parse.ts';
import { dateOf, duration, json, jsonObject, moment, uuid, whole } from '../parse.ts';
import { examples } from './help.ts';

interface EnqueueOptions {
  readonly payload?: unknown;
  readonly payloadVersion?: number;
  readonly id?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly priority?: number;
  readonly attributes?: Attributes;
  readonly runAfter?: Moment;
  readonly expiresAt?: Moment;
  readonly timeout?: number;
  readonly maxTries?: number;
  readonly maxCrashes?: number;
  readonly backoff?: Backoff['kind'];
  readonly backoffBase?: number;
  readonly backoffMax?: number;
  readonly uniqueKey?: string;
  readonly onConflict?: NonNullable<Unique['onConflict']>;
  readonly maxWait?: number;
  readonly traceparent?: string;
}

export function addEnqueue(program: Command): void {
  const command = program
    .command('enqueue')
    .summary('enqueue one job')
    .description('Enqueues one job by the name of its task. The worker checks the payload, not this command.')
    .argument('<task>', 'name of the task')
    .option('--payload <json>', 'payload for the handler; default {}', json)
    .option('--payload-version <n>', 'version of the payload; default 1', whole(1, 2_147_483_647))
    .option('--queue <queue>', 'name of the queue; default "default"')
    .option('--key <key>', 'fairness key (a tenant, a customer)')
    .option(
      '--priority <n>',
      'smaller runs first, within its key; default 0',
      whole(-2_147_483_648, 2_147_483_647),
    )
    .option('--attributes <json>', 'small flat JSON for gates and orders', jsonObject)
    .option('--run-after <time>', 'earliest start: a time with its zone, or a duration from now', moment)
    .option('--expires-at <time>', 'latest start; a job not started by then ends as expired', moment)
    .option('--timeout <duration>', 'longest time of one attempt', positive)
    .option('--max-tries <n>', 'most attempts; default 20', whole(1, 1_000))
    .option('--max-crashes <n>', 'most leases lost with their node; default 3', whole(1, 1_000))
    .addOption(
      new Option('--backoff <kind>', 'growth of the delay between attempts').choices([
        'fixed',
        'linear',
        'exponential',
      ]),
    )
    .option('--backoff-base <duration>', 'the first delay; default 1s', duration)
    .option('--backoff-max <duration>', 'the longest delay; default 1h', duration)
    .option('--unique-key <key>', 'unique key: at most one unfinished job of the task has it')
    .addOption(
      new Option('--on-conflict <what>', 'what to do if a job has the key already; default keep').choices([
        'keep',
        'replace',
        'debounce',
        'supersede',
      ]),
    )
    .option(
      '--max-wait <duration>',
      'longest time that debounce pushes a job back, from its first enqueue',
      positive,
    )
    .option('--id <uuid>', 'id of the job; enqueuing the same id again changes nothing', uuid)
    .option('--traceparent <text>', 'W3C trace context for the handler to continue')
    .action((task: string, options: EnqueueOptions, self: Command) => enqueue(task, options, self));
  examples(command, [
    ['enqueue hello', 'to run as soon as a slot is free'],
    [
      `enqueue send-email --payload '{"to":"ada@example.org"}' --key tenant-7`,
      "with a payload, in its tenant's turn",
    ],
    [
      'enqueue report --run-after 15m --unique-key daily --on-conflict debounce',
      'once, 15 minutes after the last time this was said',
    ],
  ]);
}

async function enqueue(task: string, options: EnqueueOptions, self: Command): Promise<void> {
  const orphan = options.onConflict !== undefined && options.uniqueKey === undefined;
  if (orphan) self.error('error: --on-conflict says what to do about --unique-key: give that too');
  if (options.maxWait !== undefined && options.onConflict !== 'debounce')
    self.error('error: --max-wait goes with --on-conflict debounce only');
  const context = contextOf(self);
  const coded = await codecOf(self);
  const { createProducer } = await import('@pgqueue/producer');
  const producer = createProducer({ ...databaseOptions(context, 'enqueue'), ...coded, connectionsMax: 2 });
  try {
    const { payload = {}, payloadVersion } = options;
    const enqueued = await producer.enqueueByName(task, payload, {
      ...jobOptions(options),
      ...(payloadVersion === undefined ? {} : { payloadVersion }),
    });
    context.output.answer(enqueued, () => `${enqueued.id}  ${enqueued.outcome}`);
  } finally {
    await producer.close();
  }
}

/** Passes on only the options given, so that defaults apply to the others. */
function jobOptions(options: EnqueueOptions): JobOptions {
  const { runAfter, expiresAt, uniqueKey: key, traceparent } = options;
  const retry = defined<RetryOptions>({
    maxTries: options.maxTries,
    maxCrashes: options.maxCrashes,
    backoff: options.backoff,
    base: options.backoffBase,
    max: options.backoffMax,
  });
  return defined<JobOptions>({
    id: options.id,
    queue: options.queue,
    key: options.key,
    priority: options.priority,
    attributes: options.attributes,
    timeout: options.timeout satisfies Duration | undefined,
    runAfter: runAfter?.kind === 'at' ? runAfter.date : undefined,
    delay: runAfter?.kind === 'in' ? runAfter.ms : undefined,
    expiresAt: expiresAt === undefined ? undefined : dateOf(expiresAt),
    retry: Object.keys(retry).length === 0 ? undefined : retry,
    uniqueKey: key === undefined ? undefined : uniqueOf(key, options),
    trace: traceparent === undefined ? undefined : { traceparent },
  });
}

function uniqueOf(key: string, { onConflict = 'keep', maxWait }: EnqueueOptions): Unique {
  return { key, onConflict, ...(maxWait === undefined ? {} : { maxWait }) };
}

function defined<Type extends object>(values: {
  readonly [Name in keyof Type]?: Type[Name] | undefined;
}): Type {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Type;
}

function positive(text: string): number {
  const ms = duration(text);
  if (ms > 0) return ms;
  throw new InvalidArgumentError('It must be longer than nothing.');
}
