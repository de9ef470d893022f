import type { Stage } from './stage.ts';
import { until } from '../support/until.ts';

/** Ids of jobs that stand in each state, and stay there until a test moves them. */
export interface World {
  readonly waiting: readonly string[];
  readonly delayed: string;
  readonly running: string;
  /** Behind the running one: its queue runs one at a time. */
  readonly held: string;
  readonly done: string;
  readonly dead: readonly string[];
  /** A flow that waits for somebody. */
  readonly flow: string;
}

const patienceMs = 120_000;

/**
 * Something of everything: queues (one paused), keys, jobs in every state, a lost node, one that can be reset, a schedule, an
 * action in the audit. The paused queue keeps its jobs waiting.
 */
export async function fill({ producer, operator, sql, tasks }: Stage): Promise<World> {
  await operator.queues.set('mail', { concurrency: 20, keyConcurrency: 5, rate: { perSecond: 500 } });
  await operator.queues.set('slow', { concurrency: 1 });
  await operator.queues.pause('later');
  await operator.schedules.set({
    name: 'nightly',
    cron: '0 2 * * *',
    timezone: 'Europe/Berlin',
    task: 'hello',
    payload: { tenant: 'acme' },
  });
  await seedNode(sql, { id: 'gone-1', state: 'lost' });
  await seedNode(sql, { id: 'silent-1', state: 'alive' });
  const waiting: string[] = [];
  for (let n = 0; n < 60; n += 1) {
    const tenant = ['acme', 'globex', 'initech'][n % 3] ?? 'acme';
    const { id } = await producer.enqueue(tasks.hello, { tenant }, { queue: 'later', priority: n % 2 });
    waiting.push(id);
  }
  const { id: delayed } = await producer.enqueue(
    tasks.hello,
    { tenant: 'acme' },
    { queue: 'mail', delay: '1h' },
  );
  const { id: running } = await producer.enqueue(tasks.steps, { tenant: 'globex' }, { queue: 'slow' });
  const { id: held } = await producer.enqueue(tasks.steps, { tenant: 'acme' }, { queue: 'slow' });
  const { id: done } = await producer.enqueue(tasks.hello, { tenant: 'initech' }, { queue: 'mail' });
  const dead: string[] = [];
  for (let n = 0; n < 6; n += 1) {
    dead.push((await producer.enqueue(tasks.fails, { tenant: 'acme' }, { queue: 'hooks' })).id);
  }
  await Promise.all([
    reach(operator, { ids: [running], status: 'running' }),
    reach(operator, { ids: [done], status: 'done' }),
    reach(operator, { ids: dead, status: 'dead' }),
  ]);
  const [started] = await sql('select flow_id from pgqueue.start_flow($1::jsonb)', [
    JSON.stringify({
      name: 'count-site',
      key: 'acme',
      steps: [
        { name: 'ok', kind: 'signal' },
        { name: 'publish', needs: [[0, 'done']], jobs: [{ task: 'hello', payload: { tenant: 'acme' } }] },
      ],
    }),
  ]);
  const flow = String(started?.['flow_id']);
  return { waiting, delayed, running, held, done, dead, flow };
}

interface Reach {
  readonly ids: readonly string[];
  readonly status: string;
}

/** Waits until all of them stand there. */
export async function reach(operator: Stage['operator'], { ids, status }: Reach): Promise<void> {
  for (const id of ids) {
    await until(
      `job ${id} to be ${status}`,
      async () => (await operator.jobs.get(id))?.status === status,
      patienceMs,
    );
  }
}

interface SeededNode {
  readonly id: string;
  readonly state: 'lost' | 'alive';
}

/** A node that died long ago, whose row is kept for a day; or a silent one of a pool of its own, which counts as lost only after a day. */
async function seedNode(sql: Stage['sql'], { id, state }: SeededNode): Promise<void> {
  await sql(
    `select * from pgqueue.register_node($1, '{"hello": {"min": 1, "max": 1, "timeoutMs": 60000}}', 4, 'apart', p_lost_after_ms => 86400000)`,
    [id],
  );
  await sql(`update pgqueue.node set state = $2 where id = $1`, [id, state]);
}
