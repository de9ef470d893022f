// Data of a job beside its payload, batches, flows, ordered keys, and the schema's version.
import type { JobOptions } from '@pgqueue/core';
import { defineTask, flow, giveUp, implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { z } from 'zod';
import { schema } from '../ground.ts';
import type { Stage } from '../stage.ts';
import type { Case } from './case.ts';
import { every, expectFacts, expectThat } from './case.ts';

const progress: Case = {
  name: 'progress',
  tasks: ['progress'],
  run: async (stage) => {
    await stage.start();
    const { gate, open } = stage.gate();
    const value = { done: 3, of: 9, note: 'ä' };
    const job = await stage.enqueue('progress', { value, gate });
    await stage.until('the progress to be there', async () => {
      const [row] = await stage.sql(`select progress from ${schema}.work_item where id = $1`, [job]);
      if (row === undefined || row['progress'] === null) return false;
      expectFacts('the job', row, { progress: value });
      return true;
    });
    open();
    expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 0 });
  },
};

const checkpoint: Case = {
  name: 'checkpoint',
  tasks: ['checkpoint'],
  run: async (stage) => {
    await stage.start();
    const save = { page: 17, seen: ['a', 'ü'] };
    const backoff = every(20);
    const job = await stage.enqueue('checkpoint', { save }, { retry: backoff });
    expectFacts('the job', await stage.ended(job), { outcome: 'done', tries: 1, crashes: 0 });
    const resumed = stage.allEffects().filter(({ what }) => what === 'resumed');
    expectFacts('the effects', { resumed }, { resumed: [{ job, what: 'resumed', data: save }] });
  },
};

const batch: Case = {
  name: 'batch',
  tasks: ['nack'],
  run: async (stage) => {
    await stage.start();
    // one row of WORK_QUEUE with all of them, as the scheduler makes it of short jobs
    const rows = await stage.sql(
      `with jobs as (
         insert into ${schema}.queue (queue, task, payload, max_tries)
         select $1, 'nack', jsonb_build_object('message', 'bad', 'times', case when n = 7 then 99 else 0 end, 'result', n), 1
         from generate_series(1, 20) n
         returning id, payload),
       item as (
         insert into ${schema}.work_queue (jobs, version, pool, task)
         select array_agg(id order by (payload -> 'result')::integer), 1, $1, 'nack' from jobs)
       select id, payload -> 'result' as n from jobs`,
      [stage.queue],
    );
    for (const { id, n } of rows) {
      const job = String(id);
      if (n === 7) expectFacts('the bad job', await stage.died(job), { reason: 'max_tries', tries: 1 });
      else
        expectFacts(`job ${String(n)}`, await stage.ended(job), { outcome: 'done', result: n, crashes: 0 });
    }
    const starts = stage.allEffects().filter(({ what }) => what === 'started').length;
    expectThat(starts === 20, `handlers were called ${starts} times, not 20`);
  },
};

const item = defineTask({
  name: 'item',
  payload: z.object({ n: z.number() }),
  result: z.object({ n: z.number() }),
});
const needing = defineTask({ name: 'needs', payload: z.object({}), needs: { items: item } });
const growing = defineTask({ name: 'fan-out', payload: z.object({ children: z.number() }) });

/** Runs the jobs that others need in this process, in a pool of their own. */
async function withItems(stage: Stage, act: () => Promise<void>): Promise<void> {
  const pool = `${stage.queue}-items`;
  await stage.sql(`insert into ${schema}.queue_config (queue, pool) values ($1, $1)`, [pool]);
  const { pool: connections } = stage.ground.database;
  const worker = createWorker({
    connectionString: String(connections.options.connectionString),
    schema,
    pool,
    listen: false,
    tasks: [
      implement(item, ({ n }) => {
        if (n < 0) return giveUp(new Error('below zero'));
        return { n };
      }),
    ],
  });
  await worker.start();
  try {
    await act();
  } finally {
    await worker.stop();
  }
}

const needs: Case = {
  name: 'needs',
  tasks: ['needs'],
  run: (stage) =>
    withItems(stage, async () => {
      await stage.start();
      const options: JobOptions = { queue: `${stage.queue}-items` };
      const numbers = [-2, -1, ...Array.from({ length: 1_200 }, (_, n) => n)];
      const graph = flow('conformance-needs')
        .step(
          'items',
          numbers.map((n) => item.job({ n }, options)),
        )
        .step('sum', needing.job({}, { queue: stage.queue }), { needs: { items: 'ended' } });
      const run = await stage.ground.producer.start(graph);
      const row = await stage.until('the needing job to end', async () => {
        const [found] = await stage.sql(
          `select * from ${schema}.history where flow = $1 and task = 'needs'`,
          [run.id],
        );
        return found;
      });
      expectFacts('the job', row, {
        outcome: 'done',
        result: { count: 1_200, sum: (1_199 * 1_200) / 2, failed: 2 },
      });
    }),
};

const fanOut: Case = {
  name: 'fan-out',
  tasks: ['fan-out', 'ack'],
  run: async (stage) => {
    await stage.start();
    const graph = flow('conformance-fan-out').step(
      'grow',
      growing.job({ children: 6 }, { queue: stage.queue }),
    );
    const run = await stage.ground.producer.start(graph);
    await stage.until('the flow to end', async () => {
      const [found] = await stage.sql(`select state from ${schema}.flow where id = $1`, [run.id]);
      return found?.['state'] === 'done';
    });
    const rows = await stage.sql(
      `select task, queue, result from ${schema}.history where flow = $1 order by task desc, result`,
      [run.id],
    );
    const of = { queue: stage.queue };
    expectFacts(
      'the flow',
      { rows },
      {
        rows: [
          { task: 'fan-out', ...of, result: { children: 6 } },
          ...[0, 1, 2, 3, 4, 5].map((n) => ({ task: 'ack', ...of, result: n })),
        ],
      },
    );
  },
};

const ordered: Case = {
  name: 'ordered',
  tasks: ['sleep'],
  run: async (stage) => {
    await stage.start();
    const jobs: string[] = [];
    for (let n = 0; n < 5; n += 1) jobs.push(await stage.enqueue('sleep', { ms: 100 }, { key: 'one' }));
    for (const job of jobs) expectFacts('a job', await stage.ended(job), { outcome: 'done' });
    const found = stage.allEffects().map(({ job, what }) => `${jobs.indexOf(job)} ${what}`);
    const expected = jobs.flatMap((_, n) => [`${n} started`, `${n} ended`]);
    expectFacts('the effects', { found }, { found: expected });
  },
};

const refusals = [
  { named: 'older', versions: '', says: /migrate/ },
  {
    named: 'newer',
    versions: `insert into jobs_newer.migration select (jsonb_populate_record(m, '{"version": 987, "compatible": false}')).* from ${schema}.migration m`,
    says: /987[^]*upgrade|upgrade[^]*987/,
  },
];

const schemaVersion: Case = {
  name: 'schema',
  tasks: [],
  run: async (stage) => {
    for (const { named, versions, says } of refusals) {
      const other = `jobs_${named}`;
      const login = new URL(stage.ground.workerUrl).username;
      await stage.sql(`create schema ${other}`);
      await stage.sql(`create table ${other}.migration (like ${schema}.migration)`);
      if (versions !== '') await stage.sql(versions);
      await stage.sql(`grant usage on schema ${other} to ${login}`);
      await stage.sql(`grant select on ${other}.migration to ${login}`);
      const worker = stage.launch({ schema: other });
      const code = await stage.exit(worker);
      expectThat(code !== 0, `it ended with 0 with a schema that is ${named}`);
      expectThat(says.test(worker.output()), `with a schema that is ${named}, it does not say ${says}`);
    }
  },
};

export const contents: readonly Case[] = [progress, checkpoint, batch, needs, fanOut, ordered, schemaVersion];
