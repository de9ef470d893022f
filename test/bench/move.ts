// npm run bench:move [-- JOBS]
// Moves a key with many waiting jobs (1,000,000) between two installations on one server, while it is enqueued to and worked
// on, one job at a time. Tells what was lost, doubled or out of order, and the longest time without a start.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { defineTask, implement } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createRouter, homeOf } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import { z } from 'zod';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';

const before = Number(process.argv[2] ?? 1_000_000);
const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const key = Array.from({ length: 99 }, (_, n) => `k${n}`).find((one) => homeOf(one, [1, 2]) === 1) ?? '';

const data = mkdtempSync(join(tmpdir(), 'pgqueue-move-'));
const server = await startEmbedded({ data });
const connectionString = server.adminUrl;
const installations = [1, 2].map((number) => ({
  number,
  name: `eu-${number}`,
  connectionString,
  schema: `eu_${number}`,
}));
for (const { number, name, schema } of installations) {
  await migrate({ connectionString, schema });
  const operator = createOperator({ connectionString, schema });
  await operator.installation.init({ number, name });
  // the next one is dispatched when the one before has ended: so the order of the starts is that of the key
  await operator.queues.set('default', { keyConcurrency: 1 });
  await operator.close();
}
const database = openDatabase({ connectionString, connectionsMax: 2, queryTimeoutMs: 600_000 });
await database.query(
  `insert into eu_1.queue (task, key, payload) select 'hello', $1, jsonb_build_object('n', n) from generate_series(0, $2::integer - 1) n`,
  [key, before],
);
await database.query('vacuum analyze eu_1.queue', []);
const schedulers = installations.map(({ schema }) => createScheduler({ connectionString, schema }));
await Promise.all(schedulers.map((scheduler) => scheduler.start()));
const router = createRouter({ installations });

const ran = new Set<number>();
let doubled = 0;
let outOfOrder = 0;
let last = -1;
let lastAt = performance.now();
let longest = 0;
const handler = implement(task, async ({ n }) => {
  const now = performance.now();
  longest = Math.max(longest, now - lastAt);
  lastAt = now;
  if (ran.has(n)) doubled += 1;
  if (n < last) outOfOrder += 1;
  ran.add(n);
  last = n;
  await pause(working ? 2 : 0);
});
let working = true;
const worker = router.worker({ tasks: [handler], concurrency: 1 });
await worker.start();
while (ran.size < 100) await pause(10);

let enqueued = before;
const stop = new AbortController();
const enqueue = async (): Promise<void> => {
  while (!stop.signal.aborted) {
    const jobs = Array.from({ length: 20 }, (_, n) => task.job({ n: enqueued + n }, { key }));
    await router.producer.enqueueMany(jobs);
    enqueued += jobs.length;
    await pause(100);
  }
};
const enqueuing = enqueue();
longest = 0;
const ranBefore = ran.size;
const moved = await router.operator.keys.move(key, { to: 'eu-2' });
const ranWhile = ran.size - ranBefore;
await pause(3_000);
const longestMs = Math.max(longest, performance.now() - lastAt);
stop.abort();
await enqueuing;
working = false;
console.log(
  `${moved.jobs} jobs in ${(moved.tookMs / 1_000).toFixed(1)} s (${Math.round(moved.jobs / (moved.tookMs / 1_000))} a second); ${ranWhile} of them ran meanwhile in the old home, ${enqueued - before} came`,
);
console.log(
  `held in both homes for ${Math.round(moved.pausedMs ?? -1)} ms; longest time without a start: ${Math.round(longestMs)} ms`,
);
// the head has run; the rest is checked by its rows, in the order in which the new home will run it
const rows = await database.query<{ readonly n: number }>(
  `select (payload ->> 'n')::integer as n from eu_2.queue where run_after is null order by priority, seq`,
  [],
);
await worker.stop();
await Promise.all(schedulers.map((scheduler) => scheduler.stop()));
const [left] = await database.query<{ readonly old: number; readonly way: number }>(
  `select (select count(*) from eu_1.queue)::integer as old, (select count(*) from eu_1.handover)::integer as way`,
  [],
);
const seen = new Set(ran);
let unordered = 0;
let previous = -1;
for (const { n } of rows) {
  if (n < previous) unordered += 1;
  previous = n;
  seen.add(n);
}
const twice = await database.query(
  `select id from (select id from eu_1.history union all select id from eu_2.history union all select id from eu_1.queue union all select id from eu_2.queue) x group by id having count(*) > 1`,
  [],
);
console.log(
  `lost ${enqueued - seen.size}, doubled ${doubled + twice.length}, out of order ${outOfOrder + unordered}; left in the old home ${left?.old}, on the way ${left?.way}`,
);
await Promise.all([router.close(), database.close()]);
await server.stop();
rmSync(data, { recursive: true, force: true });
