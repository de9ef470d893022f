// Ends of attempts: the first cases, which need the simple functions only.
import { setTimeout as delay } from 'node:timers/promises';
import { schema } from '../ground.ts';
import type { Row, Stage } from '../stage.ts';
import type { Case } from './case.ts';
import { every, expectFacts, expectThat } from './case.ts';

const errorsOf = (row: Row): readonly { readonly message: string; readonly at: string }[] =>
  row['errors'] as readonly { readonly message: string; readonly at: string }[];

/** Throws unless the attempt that succeeded began at least `ms` after the error of the one before. */
function expectPause(row: Row, ms: number): void {
  const failedAt = Date.parse(errorsOf(row).at(-1)?.at ?? '');
  const pauseMs = (row['started'] as Date).getTime() - failedAt;
  expectThat(pauseMs >= ms, `the next attempt began ${pauseMs} ms after the error, not ${ms} ms`);
}

function expectErrors(row: Row, count: number, message: string): void {
  const errors = errorsOf(row);
  expectThat(errors.length === count, `${errors.length} errors are kept, not ${count}`);
  const other = errors.find((error) => !error.message.includes(message));
  expectThat(other === undefined, `an error is ${JSON.stringify(other)}, without "${message}"`);
}

/** Throws unless the handler of a job was called this often. */
function expectAttempts(stage: Stage, job: string, count: number): void {
  const started = stage.effects(job).filter((what) => what === 'started').length;
  expectThat(started === count, `the handler was called ${started} times, not ${count}`);
}

const ack: Case = {
  name: 'ack',
  tasks: ['ack'],
  run: async (stage) => {
    await stage.start();
    const jobs = await Promise.all(Array.from({ length: 20 }, () => stage.enqueue('ack', {})));
    for (const job of jobs) {
      const row = await stage.ended(job);
      expectFacts(`job ${job}`, row, { outcome: 'done', tries: 0, crashes: 0, result: null });
      expectAttempts(stage, job, 1);
    }
  },
};

const results: readonly unknown[] = [
  { text: 'ä€𝄞 "quoted" \\ back\nline', list: [1, [2.5, null, false]], deep: { a: { b: {} } } },
  'a text',
  ['a', { list: 'of' }],
  9_007_199_254_740_991,
  0,
  false,
  '',
];

const result: Case = {
  name: 'result',
  tasks: ['ack'],
  run: async (stage) => {
    await stage.start();
    for (const expected of results) {
      const row = await stage.ended(await stage.enqueue('ack', { result: expected }));
      expectFacts('the result', { result: row['result'] }, { result: expected });
    }
  },
};

const retry: Case = {
  name: 'retry',
  tasks: ['nack'],
  run: async (stage) => {
    await stage.start();
    const backoff = every(400);
    const payload = { message: 'it is broken', times: 2, result: 'mended' };
    const job = await stage.enqueue('nack', payload, { retry: { maxTries: 5, ...backoff } });
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 2, crashes: 0, result: 'mended' });
    expectErrors(row, 2, 'it is broken');
    expectPause(row, 400);
    expectAttempts(stage, job, 3);
  },
};

const retryAfter: Case = {
  name: 'retry-after',
  tasks: ['retry-after'],
  run: async (stage) => {
    await stage.start();
    const backoff = every(1);
    const payload = { message: 'busy', ms: 900, times: 1 };
    const job = await stage.enqueue('retry-after', payload, { retry: backoff });
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 1 });
    expectErrors(row, 1, 'busy');
    expectPause(row, 900);
  },
};

const giveUp: Case = {
  name: 'give-up',
  tasks: ['give-up'],
  run: async (stage) => {
    await stage.start();
    const job = await stage.enqueue('give-up', { message: 'no such file' });
    const row = await stage.died(job);
    expectFacts('the job', row, { reason: 'gave_up', tries: 1, crashes: 0 });
    expectErrors(row, 1, 'no such file');
    expectAttempts(stage, job, 1);
  },
};

const exhausted: Case = {
  name: 'exhausted',
  tasks: ['nack'],
  run: async (stage) => {
    await stage.start();
    const backoff = every(20);
    const payload = { message: 'never', times: 99 };
    const job = await stage.enqueue('nack', payload, { retry: { maxTries: 3, ...backoff } });
    const row = await stage.died(job);
    expectFacts('the job', row, { reason: 'max_tries', tries: 3, crashes: 0 });
    expectErrors(row, 3, 'never');
    expectAttempts(stage, job, 3);
  },
};

const snooze: Case = {
  name: 'snooze',
  tasks: ['snooze'],
  run: async (stage) => {
    await stage.start();
    const job = await stage.enqueue('snooze', { ms: 300 });
    await stage.effect(job, 'started', 3);
    await stage.until('the job to sleep again', async () => {
      const [row] = await stage.sql(
        `select tries, crashes, errors from ${schema}.queue where id = $1 and run_after is not null`,
        [job],
      );
      if (row !== undefined) expectFacts('the job', row, { tries: 0, crashes: 0, errors: null });
      return row !== undefined;
    });
    await stage.ground.operator.jobs.cancel([job]);
    // no time has that length: the attempt has failed, and its lease does not run out
    const endless = await stage.enqueue('snooze', { ms: 1e300 }, { retry: { maxTries: 1 } });
    expectFacts('the endless job', await stage.died(endless), { reason: 'max_tries', tries: 1, crashes: 0 });
  },
};

const extend: Case = {
  name: 'extend',
  slow: true,
  tasks: ['extend'],
  run: async (stage) => {
    await stage.start();
    const { gate, open } = stage.gate();
    const job = await stage.enqueue('extend', { extendMs: 120_000, gate }, { timeout: '5s' });
    await stage.effect(job, 'extended');
    await delay(6_000); // past the timeout
    open();
    const row = await stage.ended(job);
    expectFacts('the job', row, { outcome: 'done', tries: 0, crashes: 0 });
    expectAttempts(stage, job, 1);
  },
};

const unknown: Case = {
  name: 'unknown',
  tasks: ['ack'],
  run: async (stage) => {
    await stage.start();
    const others = [await stage.enqueue('nobody-implements-this', {})];
    const [newer] = await stage.sql(
      `insert into ${schema}.queue (queue, task, payload_version) values ($1, 'ack', 2) returning id`,
      [stage.queue],
    );
    others.push(String(newer?.['id']));
    for (let n = 0; n < 5; n += 1) await stage.ended(await stage.enqueue('ack', {}));
    for (const job of others) {
      expectAttempts(stage, job, 0);
      const rows = await stage.sql(
        `select q.id from ${schema}.queue q where q.id = $1 and tries = 0 and crashes = 0
           and not exists (select from ${schema}.work_item w where w.id = q.id and w.lock_key is not null)`,
        [job],
      );
      expectThat(rows.length === 1, `job ${job}, of an unknown task or version, did not stay waiting`);
    }
  },
};

const drain: Case = {
  name: 'drain',
  tasks: ['hold', 'ack'],
  run: async (stage) => {
    const worker = await stage.start();
    const { gate, open } = stage.gate();
    const held = await stage.enqueue('hold', { gate });
    await stage.effect(held, 'started');
    worker.signal('SIGTERM');
    await stage.until('the node to report that it drains', async () => {
      const [node] = await stage.sql(`select state from ${schema}.node where id = $1`, [worker.node]);
      return node?.['state'] === 'draining';
    });
    const later = await stage.enqueue('ack', {});
    await delay(1_500); // the time in which it would claim
    expectAttempts(stage, later, 0);
    open();
    expectFacts('the job', await stage.ended(held), { outcome: 'done', tries: 0, crashes: 0 });
    const code = await stage.exit(worker);
    expectThat(code === 0, `the worker ended with ${code}`);
    const [node] = await stage.sql(`select state from ${schema}.node where id = $1`, [worker.node]);
    expectFacts('the node', node, { state: 'left' });
    expectAttempts(stage, later, 0);
  },
};

export const outcomes: readonly Case[] = [
  ack,
  result,
  retry,
  retryAfter,
  giveUp,
  exhausted,
  snooze,
  extend,
  unknown,
  drain,
];
