// npm run demo -- --installations 3: three databases that feel like one. Exits with 1 if a job is lost, or the vendor has more
// calls at a time than its limit allows.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createRouter } from '@pgqueue/router';
import type { Router } from '@pgqueue/router';
import { openDatabase } from './databases.ts';
import type { DemoDatabase } from './databases.ts';
import type { Message } from './messages.ts';
import { createStage } from '../processes.ts';
import { endsOf, linesOf, reportOf } from './report.ts';
import type { Called, Sent } from './report.ts';
import { callVendor } from './tasks.ts';

const flood = 2_000;
const seconds = 12;
const deadlineMs = 240_000;
const tenants = ['acme', 'globex', 'initech', 'umbrella'];

/** Enqueues one job, again under the same id until it is known to be there. */
async function send(router: Router, sent: Sent[], tenant: string, n: number): Promise<void> {
  const id = randomUUID();
  for (;;) {
    try {
      await router.producer.enqueue(callVendor, { tenant, n }, { id });
      sent.push({ id, tenant });
      return;
    } catch {
      await delay(200); // the database of this tenant is down
    }
  }
}

/** The first tenant floods, the others go about their day. */
async function load(router: Router, sent: Sent[]): Promise<void> {
  const [flooding = '', ...others] = tenants;
  const lanes = Array.from({ length: 4 }, async (_, lane) => {
    for (let n = lane; n < flood; n += 4) await send(router, sent, flooding, n);
  });
  const steady = others.map(async (tenant) => {
    const until = Date.now() + seconds * 1_000;
    for (let n = 0; Date.now() < until; n += 1) {
      await send(router, sent, tenant, n);
      await delay(50);
    }
  });
  await Promise.all([...lanes, ...steady]);
}

/** Moves the flooding tenant while it floods, then kills the database that it has left, and starts it again. */
async function disturb(router: Router, databases: readonly DemoDatabase[]): Promise<void> {
  const [tenant = ''] = tenants;
  const from = router.homeOf(tenant);
  const to = databases.find(({ installation }) => installation.number !== from.number)?.installation;
  const old = databases.find(({ installation }) => installation.number === from.number);
  if (to === undefined || old === undefined) throw new Error('give at least two installations');
  const moved = await router.operator.keys.move(tenant, { to: to.name });
  console.log(
    `      ${tenant} moved from ${from.name} to ${to.name} while it floods: ${moved.jobs} waiting jobs went along, nothing of it began for ${Math.round(moved.pausedMs ?? 0)} ms`,
  );
  await delay(1_000);
  old.kill();
  console.log(`      kill -9 ${from.name}: its tenants wait, the others go on`);
  await delay(3_000);
  await old.restart();
  console.log(`      ${from.name} is back`);
}

async function play(
  router: Router,
  databases: readonly DemoDatabase[],
  calls: readonly Called[],
): Promise<number> {
  const sent: Sent[] = [];
  const beganAt = Date.now();
  const loaded = load(router, sent);
  await delay(1_500);
  const disturbed = disturb(router, databases);
  disturbed.catch(() => {}); // awaited below
  let over = false;
  const all = Promise.all([loaded, disturbed]).finally(() => (over = true));
  all.catch(() => {});
  const installations = databases.map(({ installation }) => installation);
  for (;;) {
    await delay(1_000);
    console.log(linesOf(tenants, { sent, calls, seconds: (Date.now() - beganAt) / 1_000 }));
    if (Date.now() - beganAt > deadlineMs) throw new Error(`not done after ${deadlineMs / 1_000} s`);
    if (!over) continue;
    await all;
    const ends = await endsOf(installations);
    if (sent.every(({ id }) => ends.has(id))) return reportOf(tenants, { sent, calls, ends });
  }
}

const { values } = parseArgs({ options: { installations: { type: 'string', default: '3' } } });
const count = Number(values.installations);
if (!Number.isInteger(count) || count < 2 || count > 8) throw new Error('--installations takes 2 to 8');
const databases = await Promise.all(Array.from({ length: count }, (_, index) => openDatabase(index + 1)));
const installations = databases.map(({ installation }) => installation);
const calls: Called[] = [];
const stage = createStage(import.meta.url, (_name, given) => {
  const message = given as Message;
  if (message.kind === 'called') calls.push(message);
});
const env = { DEMO_INSTALLATIONS: JSON.stringify(installations) };
const router = createRouter({ installations });
try {
  await Promise.all([
    ...installations.map(({ name }) =>
      stage.start('scheduler.ts', `scheduler of ${name}`, { ...env, DEMO_SELF: name }),
    ),
    ...['worker-1', 'worker-2', 'worker-3'].map((name) => stage.start('worker.ts', name, env)),
  ]);
  const homes = tenants.map((tenant) => `${tenant} at home in ${router.homeOf(tenant).name}`);
  console.log(`${count} databases, 3 workers of all; ${homes.join(', ')}; ${tenants[0]} floods\n`);
  process.exitCode = await play(router, databases, calls);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await router.close();
  await stage.stopAll();
  await Promise.all(databases.map((database) => database.close()));
}
