import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase, readNumbers } from '@pgqueue/postgres/internal';
import type { Database, Operator } from '@pgqueue/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

// a schema of its own: its roles belong to the whole server
const schema = 'operator_roles_test';
const missing = '00000000-0000-7000-8000-000000000000';
const own = useDatabase();
let owner: Database;

beforeAll(async () => {
  await migrate({ connectionString: own.url, schema, roles: true });
  owner = openDatabase({ connectionString: own.url, schema, connectionsMax: 1 });
});
afterAll(async () => {
  await owner.query(`drop schema ${schema} cascade`, []);
  for (const role of ['producer', 'scheduler', 'worker', 'viewer', 'operator']) {
    await owner.query(`drop owned by ${schema}_${role}`, []);
    await owner.query(`drop role ${schema}_${role}`, []);
  }
  await owner.close();
});

function asUrl(role: string): string {
  const url = new URL(own.url);
  url.searchParams.set('options', `-c role=${schema}_${role}`);
  return url.href;
}

async function as(role: string, work: (operator: Operator) => Promise<void>): Promise<void> {
  const operator = createOperator({ connectionString: asUrl(role), schema, connectionsMax: 2 });
  try {
    await operator.check();
    await work(operator);
  } finally {
    await operator.close();
  }
}

async function startFlow(): Promise<string> {
  const [row] = await owner.query<{ id: string }>(
    `select flow_id as id from ${schema}.start_flow('{"name": "f", "steps": [{"name": "ok", "kind": "signal"}]}')`,
    [],
  );
  return row?.id ?? '';
}

async function insert(): Promise<string> {
  const [row] = await owner.query<{ id: string }>(
    `insert into ${schema}.queue (task) values ('hello') returning id`,
    [],
  );
  return row?.id ?? '';
}

describe('roles', () => {
  test('an operator can do everything but mend tables', async () => {
    const id = await insert();
    await as('operator', async (operator) => {
      expect((await operator.jobs.list()).items).toHaveLength(1);
      expect(await operator.jobs.get(id)).toMatchObject({ payload: {} });
      expect(await operator.jobs.amend([id], { priority: 1 })).toMatchObject([{ verdict: 'changed' }]);
      expect(await operator.jobs.signal(id, 'ok', 1)).toBe('signalled');
      expect(await operator.jobs.retry([id])).toMatchObject([{ verdict: 'changed' }]);
      expect(await operator.jobs.cancel([id])).toMatchObject([{ verdict: 'cancelled' }]);
      expect(await operator.jobs.erase([id])).toMatchObject([{ verdict: 'erased' }]);
      expect(await operator.dead.redrive({ all: true })).toMatchObject({ total: 0 });
      expect(await operator.dead.purge({ ids: [missing] })).toMatchObject({ skipped: 1 });
      const flow = await startFlow();
      expect(await operator.flows.signal(flow, 'ok', 'secret')).toBe('signalled');
      expect((await operator.flows.results(flow, 'ok')).items).toMatchObject([{ result: 'secret' }]);
      expect(await operator.flows.retry(flow)).toMatchObject({ verdict: 'nothing' });
      expect(await operator.flows.cancel(flow)).toBe('cancelling');
      await operator.queues.pause('mail');
      await operator.queues.set('mail', { pool: 'slow' });
      await operator.schedules.set({ name: 'x', cron: '* * * * *', task: 'hello' });
      await operator.schedules.remove('x');
      expect((await operator.status()).queues).toHaveLength(1);
      await owner.query(
        `insert into ${schema}.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started)
         values ('${missing}', 1, 'default', 'hello', 'gone', '${missing}', now(), now())`,
        [],
      );
      const { findings } = await operator.doctor({ mend: true });
      expect(findings).toMatchObject([
        { check: 'orphan_items', mended: { left: 1, error: expect.stringContaining('permission denied') } },
        { check: 'leases_of_ended_nodes', mended: { left: 0, error: null } },
        { check: 'hidden_snapshots', severity: 'warning' },
      ]);
    });
  });

  test('an operator is told that the age of others’ snapshots is hidden, until pg_read_all_stats is granted', async () => {
    const holder = await own.database.pool.connect();
    await holder.query(`set application_name = 'a long report'`);
    await holder.query('begin isolation level repeatable read');
    await holder.query('select 1');
    await owner.query('select pg_current_xact_id()', []);
    const user = (await holder.query<{ name: string }>('select current_user as name')).rows[0]?.name;
    const session = { application: 'a long report', user };
    try {
      await as('operator', async (operator) => {
        // a query of a moment may show the snapshot of another database's older transaction
        await expect
          .poll(async () => (await operator.status()).oldestSnapshot)
          .toMatchObject({ ...session, ageMs: null });
        const { findings, healthy } = await operator.doctor();
        const hidden = findings.find(({ check }) => check === 'hidden_snapshots');
        expect(hidden).toMatchObject({ samples: [`sessions of ${user}`], mendable: false });
        expect(hidden?.remedy).toMatch(/grant pg_read_all_stats to .* \(_scheduler, _operator; not _viewer,/);
        expect(healthy).toBe(findings.every(({ severity }) => severity === 'warning'));
      });
      const scheduler = openDatabase({ connectionString: asUrl('scheduler'), schema, connectionsMax: 1 });
      expect(await readNumbers(scheduler, { keys: 0 })).toMatchObject({ oldestSnapshotMs: null });
      await scheduler.close();
      await owner.query(`grant pg_read_all_stats to ${schema}_operator`, []);
      await as('operator', async (operator) => {
        await expect
          .poll(async () => (await operator.status()).oldestSnapshot)
          .toMatchObject({ ...session, ageMs: expect.any(Number) });
        const checks = (await operator.doctor()).findings.map(({ check }) => check);
        expect(checks).not.toContain('hidden_snapshots');
      });
    } finally {
      await owner.query(`revoke pg_read_all_stats from ${schema}_operator`, []);
      await holder.query('rollback');
      await holder.query('reset application_name');
      holder.release();
    }
  });

  test('a viewer sees everything but payloads, and changes nothing', async () => {
    const id = await insert();
    const flow = await startFlow();
    await as('viewer', async (operator) => {
      expect((await operator.flows.list({ state: 'open', name: 'f' })).items[0]?.id).toBe(flow);
      expect((await operator.flows.show(flow)).steps).toMatchObject([{ name: 'ok', signalled: false }]);
      expect((await operator.flows.explain(flow)).steps).toMatchObject([{ step: 'ok' }]);
      expect((await operator.status()).flows.open).toBeGreaterThan(0);
      for (const status of [undefined, 'pending', 'running', 'dead', 'done'] as const) {
        const of = { flow, step: 'ok', ...(status === undefined ? {} : { status }) };
        expect((await operator.jobs.list(of)).items).toEqual([]);
      }
      for (const status of [undefined, 'pending', 'running', 'dead', 'done'] as const) {
        const page = await operator.jobs.list(status === undefined ? {} : { status });
        expect(page.items).toHaveLength(status === undefined || status === 'pending' ? 1 : 0);
      }
      expect((await operator.explain(id)).job.id).toBe(id);
      expect((await operator.dead.list()).items).toEqual([]);
      expect(await operator.nodes.list()).toEqual([]);
      expect((await operator.status()).totals.pending).toBe(1);
      expect(await operator.top()).toMatchObject({
        totals: { pending: 1 },
        keys: [{ pending: 1 }],
        slowest: [],
      });
      for (const forbidden of [
        () => operator.jobs.get(id),
        () => operator.jobs.cancel([id]),
        () => operator.jobs.erase([id]),
        () => operator.dead.purge({ ids: [id] }),
        () => operator.queues.pause('mail'),
        () => operator.queues.forget('mail'),
        () => operator.schedules.remove('x'),
        () => operator.flows.results(flow, 'ok'),
        () => operator.flows.signal(flow, 'ok'),
        () => operator.flows.cancel(flow),
        () => operator.flows.retry(flow),
      ]) {
        await expect(forbidden()).rejects.toMatchObject({ code: '42501' });
      }
    });
  });

  test('the doctor finds a role that has lost its rights, until they are given anew', async () => {
    const operator = createOperator({ connectionString: own.url, schema, connectionsMax: 1 });
    try {
      await owner.query(`drop owned by ${schema}_worker`, []);
      expect(await operator.doctor()).toMatchObject({
        healthy: false,
        findings: [{ check: 'roles_without_rights', samples: [`${schema}_worker`] }],
      });
      await migrate({ connectionString: own.url, schema, roles: true });
      expect((await operator.doctor()).findings).toEqual([]);
    } finally {
      await operator.close();
    }
  });
});
