// The shop: each order is one business transaction, and the webhook is enqueued inside it. Some of them roll back.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createProducer } from '@pgqueue/producer';
import pg from 'pg';
import { requiredEnv, tell } from './messages.ts';
import { deliverWebhook } from './tasks.ts';

const connectionString = requiredEnv('DEMO_DATABASE_URL');
const endpoint = requiredEnv('DEMO_ENDPOINT');
const seconds = Number(requiredEnv('DEMO_SECONDS'));

const pool = new pg.Pool({ connectionString, max: 8 });
const producer = createProducer({ connectionString });
const committed: Record<string, number> = {};
let rolledBack = 0;

/** One order and its webhook: both, or neither. */
async function order(
  tenant: string,
  options: { readonly closed?: boolean; readonly fails?: boolean } = {},
): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const id = randomUUID();
    const cents = Math.ceil(Math.random() * 10_000);
    await client.query('insert into shop_order (id, tenant, cents) values ($1, $2, $3)', [id, tenant, cents]);
    await producer.with(client).enqueue(deliverWebhook, {
      event: id,
      tenant,
      url: `${endpoint}/${options.closed === true ? 'closed-shop' : tenant}`,
      body: { type: 'order.created', order: id, cents },
    });
    if (options.fails === true) throw new Error('card declined');
    await client.query('commit');
    committed[tenant] = (committed[tenant] ?? 0) + 1;
  } catch (error) {
    await client.query('rollback');
    if (options.fails !== true) throw error;
    rolledBack += 1;
  } finally {
    client.release();
  }
}

/** One tenant imports a year of orders, as fast as the shop can take them. */
async function flood(): Promise<void> {
  const lanes = Array.from({ length: 4 }, async (_, lane) => {
    for (let n = lane; n < 4_000; n += 4) await order('acme', { fails: n % 50 === 49 });
  });
  await Promise.all(lanes);
}

/** The others go about their day. */
async function steady(tenant: string): Promise<void> {
  const until = Date.now() + seconds * 1_000;
  for (let n = 1; Date.now() < until; n += 1) {
    await order(tenant, { closed: tenant === 'umbrella' && n % 40 === 0, fails: n % 25 === 0 });
    await delay(40);
  }
}

try {
  await Promise.all([flood(), steady('globex'), steady('initech'), steady('umbrella')]);
  tell({ kind: 'enqueued', committed, rolledBack });
} finally {
  await producer.close();
  await pool.end();
  process.disconnect?.();
}
