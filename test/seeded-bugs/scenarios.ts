// Scenarios of the seeded bugs: small, staged, and good without the bug. Scenarios with real roles are in
// roles.ts.
import type { Target } from '@pgqueue/postgres/internal';
import { dispatch, extend, fromPg, lead } from '@pgqueue/postgres/internal';
import { batchScenarios } from './batches.ts';
import { roleScenarios } from './roles.ts';
import type { Stage } from './stage.ts';

export type Scenario = (stage: Stage) => Promise<void>;

/** Stages a stolen job: the lease of n1 has run out, and n2 has the job; then n1 speaks. */
async function stolenJob(stage: Stage): Promise<{
  readonly stale: { readonly id: string; readonly token: string };
  readonly newest: { readonly id: string; readonly token: string };
}> {
  stage.facts();
  const [n1, n2] = [await stage.node('n1'), await stage.node('n2')];
  await stage.enqueue({ timeoutMs: 100 });
  await stage.dispatch();
  const [stale] = await stage.begin(n1);
  await stage.pass(150);
  await stage.database.query(`update pgqueue.queue set timeout = interval '1 hour'`, []);
  const [newest] = await stage.begin(n2);
  if (stale === undefined || newest === undefined) throw new Error('nobody could claim the job');
  return { stale, newest };
}

const stolen: Scenario = async (stage) => {
  const { stale, newest } = await stolenJob(stage);
  await stage.settle(stale, 'done');
  await stage.settle(newest, 'done');
};

const extended: Scenario = async (stage) => {
  const { stale, newest } = await stolenJob(stage);
  await extend(stage.database, [{ id: stale.id, token: stale.token, ms: 1 }]);
  await stage.pass(20);
  await stage.begin(await stage.node('n3'));
  await stage.settle(newest, 'done');
};

const reset: Scenario = async (stage) => {
  stage.facts();
  const [n1, n2] = [await stage.node('n1'), await stage.node('n2')];
  await stage.enqueue();
  await stage.dispatch();
  const [stale] = await stage.begin(n1);
  await stage.reset(n1);
  const [newest] = await stage.begin(n2);
  if (stale === undefined || newest === undefined) throw new Error('nobody could claim the job');
  await stage.settle(stale, 'done');
  await stage.settle(newest, 'done');
};

/** The node dies after its first statement. */
const failed: Scenario = async (stage) => {
  stage.facts();
  const n1 = await stage.node('n1');
  await stage.enqueue();
  await stage.dispatch();
  const [job] = await stage.begin(n1);
  if (job === undefined) throw new Error('nobody could claim the job');
  let left = 1;
  const dying: Target = {
    schema: stage.database.schema,
    query: (text, values) => {
      left -= 1;
      return left < 0 ? Promise.reject(new Error('it is dead')) : stage.database.query(text, values);
    },
  };
  await stage.settle(job, 'retry', dying).catch(() => {});
  await stage.look();
};

const slowClock: Scenario = async (stage) => {
  stage.facts();
  const [n1, n2] = [await stage.node('n1'), await stage.node('n2')];
  await stage.enqueue();
  await stage.dispatch();
  const now = Date.now;
  Date.now = (): number => now() - 7_200_000;
  const [job] = await stage.begin(n1);
  Date.now = now;
  await stage.begin(n2);
  if (job !== undefined) await stage.settle(job, 'done');
};

const poison: Scenario = async (stage) => {
  stage.facts({ crashMax: { poison: 3 } });
  await stage.enqueue({ task: 'poison' });
  await stage.dispatch();
  for (let life = 1; life <= 5; life += 1) {
    const node = await stage.node(`n${life}`);
    await stage.begin(node);
    await stage.reset(node);
  }
};

/** The first leader's plan is older than its lease. */
const takeover: Scenario = async (stage) => {
  const { database } = stage;
  stage.facts({ groupMax: 1 });
  const [first = '', second = ''] = await stage.enqueue({ count: 2, tenant: 'one' });
  const write = async (leader: string, epoch: number, id: string): Promise<void> => {
    const jobs = [{ id, pool: 'default', rowVersion: null, bundle: null }];
    await dispatch(database, { leader, epoch, jobs, parts: null, settled: [], notify: false }).catch(
      (error: { readonly code?: string }) => {
        if (error.code !== 'PQ002') throw error;
      },
    );
  };
  const { epoch: old } = await lead(database, 'left', 100);
  await stage.pass(150);
  const { epoch } = await lead(database, 'right', 60_000);
  await write('right', epoch, second);
  await write('left', old, first);
};

const longTransaction: Scenario = async (stage) => {
  stage.facts();
  const [n1, n2] = [await stage.node('n1'), await stage.node('n2')];
  await stage.enqueue({ timeoutMs: 2_000 });
  await stage.dispatch();
  const client = await stage.database.pool.connect();
  try {
    await client.query('begin');
    await client.query('select pg_sleep(2.2)');
    await stage.begin(n1, { target: { ...fromPg(client), schema: stage.database.schema } });
    await client.query('commit');
  } finally {
    client.release();
  }
  await stage.begin(n2);
};

export const scenarios: Readonly<Record<string, Scenario>> = {
  stolen,
  extended,
  reset,
  failed,
  'slow clock': slowClock,
  poison,
  takeover,
  'long transaction': longTransaction,
  ...batchScenarios,
  ...roleScenarios,
};
