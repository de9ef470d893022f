import { createOperator, openDatabase } from '@pgqueue/postgres';
import type { Database, Operator } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { lease, seedOf } from '../support/seed.ts';

let own: TestDatabase;
let database: Database;
let operator: Operator;
const { insert, item, node, reset, sql } = seedOf(() => database);

beforeAll(async () => {
  own = await createTestDatabase();
  database = openDatabase({ connectionString: own.url, connectionsMax: 4 });
  operator = createOperator({ pool: database.pool });
});
afterAll(async () => {
  await operator.close();
  await database.close();
  await own.drop();
});
beforeEach(reset);

async function bury(id: string): Promise<void> {
  await sql(
    `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
       payload_version, attributes, payload, errors)
     values ($1, 'default', 'hello', '', 0, 'gave_up', 1, 20, 0, 3, now(), now(), 1, '{}', '{}', '[]')`,
    [id],
  );
}

async function finish(id: string, finished = 'now'): Promise<void> {
  await sql(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload)
     values ($1, 'default', 'hello', '', 0, 'done', 0, 0, now(), $2, 1, '{}', '{}')`,
    [id, finished],
  );
}

interface Breakage {
  readonly check: string;
  readonly mendable?: boolean;
  /** Breaks something; returns what the finding must name. */
  readonly seed: () => Promise<readonly string[]>;
  /** What must be true after the mend, beside a clean second look. */
  readonly after?: (samples: readonly string[]) => Promise<void>;
  readonly undo?: string;
}

const breakages: readonly Breakage[] = [
  {
    check: 'orphan_items',
    seed: async () => {
      const id = '00000000-0000-7000-8000-00000000000a';
      await item(id);
      return [id];
    },
  },
  {
    check: 'items_of_delayed_jobs',
    seed: async () => {
      const ready = await insert({ run_after: '2999-01-01T00:00:00Z' });
      const running = await insert({ run_after: '2999-01-01T00:00:00Z' });
      await node('n');
      await item(ready);
      await item(running, lease('n'));
      return [ready, running];
    },
    after: async ([ready = '', running = '']) => {
      expect((await operator.jobs.get(ready))?.status).toBe('delayed');
      expect(await operator.jobs.get(running)).toMatchObject({ status: 'running', runAfter: null });
    },
  },
  {
    check: 'items_that_differ',
    seed: async () => {
      const id = await insert({ payload_version: 2 });
      await item(id);
      return [id];
    },
    after: async ([id = '']) => {
      expect((await operator.jobs.get(id))?.status).toBe('pending');
    },
  },
  {
    check: 'jobs_in_two_places',
    seed: async () => {
      const done = await insert();
      await finish(done);
      const dead = await insert();
      await bury(dead);
      return [done, dead];
    },
    after: async ([done = '', dead = '']) => {
      expect((await operator.jobs.get(done))?.status).toBe('done');
      expect((await operator.jobs.get(dead))?.status).toBe('pending');
      expect((await operator.dead.list()).items).toEqual([]);
    },
  },
  {
    check: 'leases_of_ended_nodes',
    seed: async () => {
      await node('gone', { state: 'left' });
      for (const name of ['gone', 'unheard-of']) await item(await insert(), lease(name));
      return ['gone', 'unheard-of'];
    },
    after: async () => {
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(2);
    },
  },
  {
    check: 'expired_leases',
    seed: async () => {
      await node('n');
      const id = await insert();
      await item(id, lease('n', '2026-01-01T00:00:00Z'));
      return [id];
    },
    after: async ([id = '']) => {
      expect(await operator.jobs.get(id)).toMatchObject({ status: 'ready', crashes: 1 });
    },
  },
  {
    check: 'history_partitions',
    seed: async () => {
      const [{ name }] = await sql(
        `select 'history_' || to_char((now() at time zone 'UTC')::date + 1, 'YYYYMMDD') as name`,
      );
      await sql(`drop table pgqueue.${name}`);
      const [{ tomorrow }] = await sql(`select now() + interval '1 day' as tomorrow`);
      await finish('00000000-0000-7000-8000-00000000000b', tomorrow);
      return ['history_default', name];
    },
    after: async () => {
      expect(await sql('select from pgqueue.history_default')).toEqual([]);
      expect(await sql('select from pgqueue.history')).toHaveLength(1);
    },
  },
  {
    check: 'open_to_public',
    seed: async () => {
      await sql('grant execute on function pgqueue.reap to public');
      await sql('grant select on pgqueue.queue to public');
      return ['pgqueue.queue', 'pgqueue.reap(integer)'];
    },
  },
  {
    check: 'invalid_indexes',
    mendable: false,
    seed: async () => {
      await sql(`update pg_index set indisvalid = false where indexrelid = 'pgqueue.queue_due'::regclass`);
      return ['queue_due'];
    },
    undo: `update pg_index set indisvalid = true where indexrelid = 'pgqueue.queue_due'::regclass`,
  },
  {
    check: 'missing_indexes',
    mendable: false,
    seed: async () => {
      await sql('drop index pgqueue.dead_letter_died');
      return ['dead_letter_died'];
    },
    undo: 'create index dead_letter_died on pgqueue.dead_letter (died, id)',
  },
  {
    check: 'unexpected_indexes',
    mendable: false,
    seed: async () => {
      await sql('create index surprise on pgqueue.work_queue (lock_timeout)');
      return ['surprise'];
    },
    undo: 'drop index pgqueue.surprise',
  },
  {
    check: 'schema_version',
    mendable: false,
    seed: async () => {
      await sql(
        `insert into pgqueue.migration (version, name, checksum, compatible) values (999, 'later', '', true)`,
      );
      return ['version 999'];
    },
    undo: 'delete from pgqueue.migration where version = 999',
  },
  {
    check: 'no_leader',
    mendable: false,
    seed: async () => {
      await insert({ created: '2026-01-01T00:00:00Z' });
      return ['nobody'];
    },
  },
  {
    check: 'forgotten_leases',
    mendable: false,
    seed: async () => {
      for (const id of ['forgets', 'knows']) await node(id);
      await sql(
        `update pgqueue.node set software = '@pgqueue/worker, node v24', running = 1, heartbeat = clock_timestamp()`,
      );
      for (const holder of ['forgets', 'forgets', 'knows']) await item(await insert(), lease(holder));
      await sql(
        `update pgqueue.work_queue set started = now() - interval '2 minutes', lock_timeout = now() + interval '1 hour'`,
      );
      // claimed since the heartbeat that said so: it is not counted yet
      await item(await insert(), { ...lease('knows'), started: new Date().toISOString() });
      return ['forgets'];
    },
  },
  {
    check: 'overdue_schedules',
    mendable: false,
    seed: async () => {
      await operator.schedules.set({ name: 'nightly', cron: '0 3 * * *', task: 'hello' });
      await sql(`update pgqueue.schedule set next_slot = '2026-01-01T00:00:00Z'`);
      return ['nightly'];
    },
  },
];

describe('doctor', () => {
  test('finds nothing in a sound installation, at rest and at work', async () => {
    const running = await insert();
    await node('n');
    await item(running, lease('n'));
    await bury(await insert().then(async (id) => (await operator.jobs.erase([id]), id)));
    await finish('00000000-0000-7000-8000-00000000000c');
    const { findings, healthy, checked } = await operator.doctor();
    expect(findings).toEqual([]);
    expect(healthy).toBe(true);
    expect([...checked].sort()).toEqual(breakages.map(({ check }) => check).sort());
  });

  test.each(breakages)('finds $check, and mends it on request', async (breakage) => {
    const { check, mendable = true, seed, after, undo } = breakage;
    const samples = await seed();
    try {
      const { findings, healthy } = await operator.doctor();
      expect(findings.map((finding) => finding.check)).toEqual([check]);
      const [found] = findings;
      expect(found).toMatchObject({ count: samples.length, mendable, mended: null });
      expect([...(found?.samples ?? [])].sort()).toEqual([...samples].sort());
      expect(healthy).toBe(found?.severity === 'warning');

      const mended = await operator.doctor({ mend: true });
      expect(mended.findings[0]?.mended).toEqual(mendable ? { left: 0, error: null } : null);
      expect(mended.healthy).toBe(mendable || healthy);
      const again = await operator.doctor({ mend: true });
      expect(again.findings.length).toBe(mendable ? 0 : 1);
      await after?.(samples);
    } finally {
      if (undo !== undefined) await sql(undo);
    }
  });

  test('a mend that fails says so', async () => {
    await item('00000000-0000-7000-8000-00000000000d');
    await sql(
      'create function pgqueue.refuse() returns trigger language plpgsql as $$ begin raise exception $m$not today$m$; end $$',
    );
    await sql('create trigger refuse before delete on pgqueue.work_queue execute function pgqueue.refuse()');
    try {
      const { findings, healthy } = await operator.doctor({ mend: true });
      const orphans = findings.find(({ check }) => check === 'orphan_items');
      expect(orphans?.mended).toEqual({ left: 1, error: 'not today' });
      expect(healthy).toBe(false);
    } finally {
      await sql('drop function pgqueue.refuse() cascade');
    }
  });

  test('what another session has locked is left alone', async () => {
    await item('00000000-0000-7000-8000-00000000000e');
    const holder = await database.pool.connect();
    try {
      await holder.query('begin');
      await holder.query('select from pgqueue.work_queue for update');
      const { findings } = await operator.doctor({ mend: true });
      expect(findings[0]?.mended).toEqual({ left: 1, error: null });
    } finally {
      await holder.query('rollback');
      holder.release();
    }
  });
});
