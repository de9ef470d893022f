import { defineTask, implement, implementBatch, PgQueueError } from '@pgqueue/core';
import { createOperator, migrate, migrationStatus } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createRouter } from '@pgqueue/router';
import { createScheduler, maintenanceWindow } from '@pgqueue/scheduler';
import { createPuller, createWorker } from '@pgqueue/worker';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

// nobody listens there: errors must come before any I/O
const connectionString = 'postgres://nobody:s3cret-canary@127.0.0.1:9/none';
const task = defineTask({ name: 'mail', payload: z.object({ to: z.string() }) });
const handler = implement(task, () => null);
const of = (): null => null;
const installations = [1, 2].map((number) => ({ number, name: `n-${number}`, connectionString }));
const router = createRouter({ installations });

/** Functions that a user calls, with valid options. */
const makers: readonly (readonly [what: string, make: (options: never) => unknown, right: object])[] = [
  ['createProducer', createProducer, { connectionString }],
  ['createOperator', createOperator, { connectionString }],
  ['createScheduler', createScheduler, { connectionString }],
  ['createWorker', createWorker, { connectionString, tasks: [handler] }],
  ['createPuller', createPuller, { connectionString, tasks: ['mail'] }],
  ['createRouter', createRouter, { installations }],
  ['router.puller', (options: never) => router.puller(options), { tasks: ['mail'] }],
  ['defineTask', defineTask, { name: 'mail', payload: z.object({}) }],
  [
    'maintenanceWindow',
    maintenanceWindow,
    { name: 'night', cron: '0 2 * * *', durationMs: 3_600_000, mode: 'closed_during' },
  ],
];

/** Options with one mistake each, and the message about it. */
const mistakes: readonly (readonly [what: string, wrong: object, problem: string])[] = [
  ['createProducer', { conectionString: 'x' }, 'there is no conectionString: did you mean connectionString?'],
  ['createProducer', { notify: 'no' }, 'notify must be true or false, not "no"'],
  ['createProducer', { listen: 'no' }, 'listen must be true or false, not "no"'],
  ['createProducer', { observe: {} }, 'observe must be a function, not an object'],
  ['createProducer', { pool: { max: 5 } }, 'pool must be a Pool of pg, not an object'],
  [
    'createProducer',
    { connectionsMax: '5' },
    'connectionsMax must be a whole number from 1 to 10000, not "5"',
  ],
  ['createProducer', { schema: 'Jobs' }, 'schema "Jobs" is no usable name'],
  ['createOperator', { shema: 'jobs' }, 'there is no shema: did you mean schema?'],
  ['createOperator', { queryTimeoutMs: '30s' }, 'queryTimeoutMs must be 0 or more, not "30s"'],
  ['createScheduler', { polocy: {} }, 'there is no polocy: did you mean policy?'],
  ['createScheduler', { policy: { order: of } }, 'policy must be what policy({ gates, order }) returns'],
  ['createScheduler', { policy: of }, 'policy must be what policy({ gates, order }) returns'],
  ['createScheduler', { shadow: { name: 's', plan: of } }, 'shadow.initial must be given'],
  ['createScheduler', { policyBudgetMs: '1s' }, 'policyBudgetMs must be a number from 10 to 10000, not "1s"'],
  ['createScheduler', { pollMs: 100 }, 'pollMs must be an object, not 100'],
  ['createScheduler', { pollMs: { min: 9, max: 5 } }, 'pollMs.min must not be more than pollMs.max'],
  ['createScheduler', { leaseMS: 500 }, 'there is no leaseMS: did you mean leaseMs?'],
  ['createWorker', { concurency: 5 }, 'there is no concurency: did you mean concurrency?'],
  ['createWorker', { concurrency: '5' }, 'concurrency must be a whole number from 1 to 10000, not "5"'],
  ['createWorker', { tasks: handler }, 'tasks must be a list of handlers'],
  ['createWorker', { tasks: [task] }, 'tasks[0] must be made by implement(task, handler) or implementBatch'],
  ['createWorker', { tasks: undefined }, 'tasks must be given'],
  ['createWorker', { pool: {} }, 'pool must be a text of 1 to 100 characters, not an object'],
  ['createWorker', { logger: console.log }, 'logger must be a logger'],
  ['createWorker', { drain: 5 }, 'there is no drain: did you mean drainMs?'],
  ['createPuller', { task: ['mail'] }, 'there is no task: did you mean tasks?'],
  ['createPuller', { tasks: 'mail' }, 'tasks must be a list of tasks'],
  ['createPuller', { tasks: [5] }, 'tasks[0] must be'],
  ['createPuller', { tasks: [null] }, 'tasks[0] must be'],
  ['createPuller', { slot: 5 }, 'there is no slot: did you mean slots?'],
  ['createRouter', { poll: 100 }, 'there is no poll: did you mean pollMs?'],
  ['createRouter', { actor: { name: 'ada' } }, 'actor.via must be given: "dashboard" or "cli"'],
  ['router.puller', { task: ['mail'] }, 'there is no task: did you mean tasks?'],
  ['router.puller', { tasks: [5] }, 'tasks[0] must be'],
  ['router.puller', { slots: '5' }, 'slots must be a whole number from 1 to 100000, not "5"'],
  ['defineTask', { payloadVersion: 2 }, 'there is no payloadVersion: '],
  ['defineTask', { retries: 3 }, 'there is no retries'],
  [
    'defineTask',
    { result: {} },
    'result must be a Standard Schema (zod, valibot, arktype, …), not an object',
  ],
  ['defineTask', { retry: { maxTrys: 3 } }, 'there is no retry.maxTrys: did you mean maxTries?'],
  ['defineTask', { retry: 3 }, 'retry must be an object, not 3'],
  ['defineTask', { key: 5 }, 'key must be a text of 0 to 200 characters, or a function, not 5'],
  ['defineTask', { upcasters: { 1: 'x' }, version: 2 }, 'upcasters.1 must be a function, not "x"'],
  ['maintenanceWindow', { mode: 'closed' }, 'not "closed": did you mean "closed_during"?'],
  ['maintenanceWindow', { duration: '1h' }, 'there is no duration: did you mean durationMs?'],
  ['maintenanceWindow', { when: 'billing' }, 'when must be a function, not "billing"'],
];

function refusal(make: () => unknown): PgQueueError | undefined {
  try {
    make();
    return undefined;
  } catch (error) {
    if (error instanceof PgQueueError) return error;
    throw error;
  }
}

describe.each([
  ['migrate', migrate as (options: never) => Promise<unknown>],
  ['migrationStatus', migrationStatus as (options: never) => Promise<unknown>],
])('%s', (_what, call) => {
  test.each([
    [{ connectionString: 'mysql://a@b/c' }, 'connectionString is not a connection string'],
    [{ connectionString, shema: 'jobs' }, 'there is no shema: did you mean schema?'],
    [{ connectionString, queryTimeoutMs: '30s' }, 'queryTimeoutMs must be 0 or more'],
    [{ connectionString, role: true }, 'there is no role'],
    [{}, 'no database is named'],
    [undefined, 'must be an object'],
  ])('%o is refused before any I/O', async (options, problem) => {
    const refused = call(options as never);
    await expect(refused).rejects.toMatchObject({ code: 'configuration' });
    await expect(refused).rejects.toThrow(problem);
    await expect(refused).rejects.not.toThrow('s3cret');
  });
});

test('migrate names its own options', async () => {
  const wrong = { connectionString, roles: 'yes', onApplied: true } as never;
  await expect(migrate(wrong)).rejects.toThrow(/roles must be true or false.*onApplied must be a function/);
});

describe.each(makers)('%s', (what, make, right) => {
  const own = mistakes.filter(([of]) => of === what);

  test('takes what is right', () => {
    expect(refusal(() => make(right as never))).toBeUndefined();
  });

  test.each(own)('%s with %o is refused', (_what, wrong, problem) => {
    const error = refusal(() => make({ ...right, ...wrong } as never));
    expect(error).toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(problem) as unknown,
    });
    expect(error?.data['problems']).toHaveLength(1);
    expect(JSON.stringify([error?.message, error?.data])).not.toContain('s3cret');
  });

  test('tells all mistakes at once', () => {
    const [one, other] = [{ zzz: 1 }, { name: Symbol('x'), schema: 5, cron: 5 }];
    const problems = refusal(() => make({ ...right, ...one, ...other } as never))?.data['problems'];
    expect((problems as readonly string[]).length).toBeGreaterThan(1);
  });

  test.each([undefined, null, 'postgres://localhost', 5, []])('%o are no options', (options) => {
    expect(refusal(() => make(options as never))).toMatchObject({
      code: 'configuration',
      message: expect.stringMatching(/must be an object/) as unknown,
    });
  });
});

describe.each([
  ['implement', implement],
  ['implementBatch', implementBatch],
])('%s', (name, join) => {
  test.each<[string, readonly unknown[], string]>([
    [
      'without a function',
      [task],
      `${name}(task, handler) of task "mail": handler must be given: a function`,
    ],
    ['with a text', [task, 'run'], 'handler must be a function, not "run"'],
    ['of a name', ['mail', of], `${name}(task, handler): task must be made by defineTask, not "mail"`],
    ['of nothing', [], 'task must be given: made by defineTask; handler must be given'],
  ])('%s is refused', (_what, given, problem) => {
    const error = refusal(() => (join as (...args: readonly unknown[]) => unknown)(...given));
    expect(error).toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(problem) as unknown,
    });
  });
});

describe('an enqueue', () => {
  const producer = createProducer({ connectionString });
  test.each<[string, () => Promise<unknown>, string]>([
    ['of a name', () => producer.enqueue('mail' as never, {}), 'enqueue takes a task, made by defineTask'],
    ['of a handler', () => producer.enqueue(handler as never, {}), 'enqueue takes a task'],
    [
      'with a slip',
      () => producer.enqueue(task, { to: 'a' }, { delai: '5m' } as never),
      'there is no delai: did you mean delay?',
    ],
    [
      'with many',
      () => producer.enqueue(task, { to: 'a' }, { Key: 'k', runafter: 5 } as never),
      'there is no Key: did you mean key?; there is no runafter: did you mean runAfter?',
    ],
    [
      'with a retry',
      () => producer.enqueue(task, { to: 'a' }, { retry: { tries: 5 } } as never),
      'there is no retry.tries',
    ],
    [
      'with a number of retries',
      () => producer.enqueue(task, { to: 'a' }, { retry: 5 } as never),
      'retry must be an object, not 5',
    ],
    [
      'with a unique key',
      () => producer.enqueue(task, { to: 'a' }, { uniqueKey: { key: 'k', onconflict: 'keep' } } as never),
      'there is no uniqueKey.onconflict: did you mean onConflict?',
    ],
    [
      'with options that are none',
      () => producer.enqueue(task, { to: 'a' }, 'high' as never),
      'options must be an object',
    ],
    ['with null', () => producer.enqueue(task, { to: 'a' }, null as never), 'options must be an object'],
    [
      'by name with null',
      () => producer.enqueueByName('mail', {}, null as never),
      'options must be an object',
    ],
    [
      'by name with a slip',
      () => producer.enqueueByName('mail', {}, { payloadversion: 2 } as never),
      'there is no payloadversion',
    ],
    [
      'of many that are none',
      () => producer.enqueueMany(task.job({ to: 'a' }) as never),
      'enqueueMany takes a list of jobs',
    ],
    [
      'of many of which one is none',
      () => producer.enqueueMany([task.job({ to: 'a' }), { to: 'b' } as never]),
      'jobs[1] must be what task.job(payload) returns',
    ],
    [
      'of many with a slip',
      () => producer.enqueueMany([task.job({ to: 'a' }, { prio: 1 } as never)]),
      'there is no prio: did you mean priority?',
    ],
  ])('%s is refused', async (_what, enqueue, problem) => {
    await expect(enqueue()).rejects.toMatchObject({
      code: 'invalid_job',
      message: expect.stringContaining(problem) as unknown,
    });
  });
});

describe('a wait for a result', () => {
  const producer = createProducer({ connectionString });
  const id = '00000000-0000-7000-8000-00000000000a';
  test.each<[string, () => Promise<unknown>, string]>([
    [
      'of no id',
      () => producer.result('mail'),
      'takes the id of a job, a UUID, or what an enqueue returned, not "mail"',
    ],
    ['of nothing', () => producer.result(undefined as never), 'not undefined'],
    ['of a list', () => producer.result([id] as never), 'not undefined'],
    ['of an object without an id', () => producer.result({} as never), 'not undefined'],
    ['for less than no time', () => producer.result(id, { timeout: -1 }), 'timeout must be a duration'],
    ['for some time', () => producer.result(id, { timeout: 'soon' as never }), 'timeout must be a duration'],
    ['with a slip', () => producer.result(id, { timeOut: 1 } as never), 'did you mean timeout?'],
    [
      'without a database',
      () => createProducer({}).result(id),
      'give connectionString or pool to await results',
    ],
  ])('%s is refused', async (_what, wait, problem) => {
    await expect(wait()).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(problem) as unknown,
    });
  });
});

describe.each([
  ['a claim', createPuller({ connectionString, tasks: ['mail'] })],
  ['a claim from several', router.puller({ tasks: ['mail'] })],
])('%s', (_what, puller) => {
  test.each<[object, string]>([
    [{ max: 0 }, 'max must be a whole number from 1, not 0'],
    [{ max: Number.NaN }, 'max must be a whole number from 1, not NaN'],
    [{ max: 1.5 }, 'max must be a whole number from 1, not 1.5'],
    [{ max: '2' }, 'max must be a whole number from 1, not "2"'],
    [{ waitMs: '1s' }, 'waitMs must be a number from 0 to 86400000, not "1s"'],
    [{ waitMs: Infinity }, 'waitMs must be a number from 0 to 86400000, not Infinity'],
    [{ wait: 5 }, 'there is no wait: did you mean waitMs?'],
  ])('of %o is refused', async (wanted, problem) => {
    await expect(puller.claim(wanted)).rejects.toMatchObject({
      code: 'configuration',
      message: `puller.claim: ${problem}`,
    });
  });
});

test.each<[string, unknown]>([
  ["a library's transaction without its adapter", { insertInto: of, executeQuery: of }],
  ['a query builder', { query: { users: {} } }],
  ['nothing', undefined],
])('a producer within %s is refused', (_what, transaction) => {
  const producer = createProducer({});
  expect(refusal(() => producer.with(transaction as never))).toMatchObject({
    code: 'configuration',
    message: expect.stringContaining('through its adapter, such as fromKysely(trx)') as unknown,
  });
});

describe('an operator', () => {
  const operator = createOperator({ connectionString });
  test.each<[string, () => Promise<unknown>, string]>([
    [
      'purges by a slip',
      () => operator.dead.purge({ queue: 'mail', taks: 'x' } as never),
      'there is no taks: did you mean task?',
    ],
    [
      'purges all by a slip',
      () => operator.dead.purge({ All: true } as never),
      'there is no All: did you mean all?',
    ],
    ['redrives by a text', () => operator.dead.redrive('mail' as never), 'must be an object, not "mail"'],
    [
      'redrives in chunks of text',
      () => operator.dead.redrive({ all: true }, { chunk: '5' } as never),
      'chunk must be a whole number',
    ],
    ['lists the dead of a slip', () => operator.dead.list({ ques: 'x' } as never), 'there is no ques'],
    [
      'lists jobs by a slip',
      () => operator.jobs.list({ state: 'dead' } as never),
      'there is no state: did you mean status?',
    ],
    [
      'amends by a slip',
      () => operator.jobs.amend([], { prio: 5 } as never),
      'there is no prio: did you mean priority?',
    ],
    [
      'sets limits by a slip',
      () => operator.queues.set('mail', { concurency: 5 } as never),
      'there is no concurency: did you mean concurrency?',
    ],
    [
      'sets limits by a text',
      () => operator.queues.set('mail', { rate: '100/s' } as never),
      'rate must be an object with perSecond',
    ],
    [
      'schedules by a slip',
      () => operator.schedules.set({ name: 's', cron: '* * * * *', task: 't', timeZone: 'UTC' } as never),
      'there is no timeZone: did you mean timezone?',
    ],
    [
      'schedules with an option that none has',
      () =>
        operator.schedules.set({
          name: 's',
          cron: '* * * * *',
          task: 't',
          options: { delay: '5m' },
        } as never),
      'there is no options.delay',
    ],
  ])('that %s is refused', async (_what, act, problem) => {
    await expect(act()).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(problem) as unknown,
    });
  });
});
