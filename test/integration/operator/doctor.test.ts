import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { lease } from '../../support/seed.ts';
import { flowBreakages } from './doctor-flows.ts';
import { elsewhere, endsOf, objectsBreakage, policyBreakage, unmended } from './doctor-support.ts';

const { database, operator, batch, insert, item, node, reset, run, sql } = useDatabase();
const { bury, finish } = endsOf({ sql });

beforeEach(reset);

interface Breakage {
  readonly check: string;
  readonly mendable?: boolean;
  /** Breaks something. Returns the texts that the finding must name. */
  readonly seed: () => Promise<readonly string[]>;
  /** Checks the repaired state, beyond a second look without findings. */
  readonly after?: (samples: readonly string[]) => Promise<void>;
  readonly undo?: string;
}

const breakages: readonly Breakage[] = [
  {
    check: 'moves_that_stand',
    mendable: false,
    seed: async () => {
      await sql(`insert into pgqueue.key_move (key, side, peer, version, held, advanced)
                 values ('acme', 'out', 2, 1, false, now() - interval '5 minutes'), ('other', 'in', 2, 1, true, now())`);
      return ['acme'];
    },
    undo: 'delete from pgqueue.key_move',
  },
  {
    check: 'orphan_items',
    seed: async () => {
      const ids = ['00000000-0000-7000-8000-00000000000a', '00000000-0000-7000-8000-000000000009'];
      const [single = '', inBatch = ''] = ids;
      await item(single);
      await node('n');
      await batch([await insert(), inBatch, await insert()], lease('n'));
      return ids;
    },
    after: async () => {
      expect((await operator.jobs.list({ status: 'running' })).items).toHaveLength(2);
      expect(await sql('select from pgqueue.work_queue where jobs is null')).toHaveLength(2);
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
      const [readyToo, runningToo] = [
        await insert({ run_after: '2999-01-01T00:00:00Z' }),
        await insert({ run_after: '2999-01-01T00:00:00Z' }),
      ];
      await batch([await insert(), readyToo]);
      await batch([runningToo, await insert()], lease('n'));
      return [ready, running, readyToo, runningToo];
    },
    after: async ([ready = '', running = '', readyToo = '', runningToo = '']) => {
      for (const id of [ready, readyToo]) expect((await operator.jobs.get(id))?.status).toBe('delayed');
      for (const id of [running, runningToo]) {
        expect(await operator.jobs.get(id)).toMatchObject({ status: 'running', runAfter: null });
      }
      // the other jobs of their batches are unchanged
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(1);
      expect(await sql('select from pgqueue.work_queue where jobs is not null')).toHaveLength(1);
    },
  },
  {
    check: 'items_that_differ',
    seed: async () => {
      const [alone, inBatch] = [await insert({ payload_version: 2 }), await insert({ task: 'other' })];
      await item(alone);
      await batch([await insert(), inBatch]);
      return [alone, inBatch];
    },
    after: async (ids) => {
      for (const id of ids) expect((await operator.jobs.get(id))?.status).toBe('pending');
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(1);
    },
  },
  {
    check: 'jobs_in_two_items',
    seed: async () => {
      await node('n');
      const [single, twice, leased, sound] = [await insert(), await insert(), await insert(), await insert()];
      await item(single);
      await batch([single, twice, sound]);
      await batch([leased, await insert(), leased]);
      await batch([twice, leased], lease('n'));
      return [single, twice, leased];
    },
    after: async (ids) => {
      const [single = '', twice = '', leased = ''] = ids;
      for (const id of [twice, leased]) expect((await operator.jobs.get(id))?.status).toBe('running');
      expect((await operator.jobs.get(single))?.status).toBe('ready');
      const items = await sql('select id from pgqueue.work_item');
      expect(items).toHaveLength(5);
      expect(new Set(items.map(({ id }) => id)).size).toBe(5);
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(3);
    },
  },
  {
    check: 'items_behind_front',
    seed: async () => {
      await item(await insert());
      const position = await batch([await insert(), await insert()]);
      await sql('insert into pgqueue.work_front (item, batch) values ($1, $1)', [position + 1]);
      return (await sql('select position from pgqueue.work_queue')).map((row) => row.position);
    },
    after: async () => {
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(3);
    },
  },
  {
    check: 'jobs_in_two_places',
    seed: async () => {
      const done = await insert();
      await finish(done);
      const dead = await insert();
      await bury(dead);
      const both = '00000000-0000-7000-8000-00000000000f';
      await bury(both);
      await finish(both);
      return [done, dead, both];
    },
    after: async ([done = '', dead = '', both = '']) => {
      expect((await operator.jobs.get(done))?.status).toBe('done');
      expect((await operator.jobs.get(dead))?.status).toBe('pending');
      expect((await operator.jobs.get(both))?.status).toBe('done');
      expect((await operator.dead.list()).items).toEqual([]);
      const removed = await sql(
        `select id, errors -> -1 ->> 'message' as why from pgqueue.history where outcome = 'cancelled' order by id = $1, id = $2`,
        [both, dead],
      );
      const why = (what: string): unknown =>
        expect.stringContaining(`removed by the doctor: this job ${what}`);
      expect(removed).toEqual([
        { id: done, why: why('waited') },
        { id: dead, why: why('was dead') },
        { id: both, why: why('was dead') },
      ]);
    },
  },
  {
    check: 'leases_of_ended_nodes',
    seed: async () => {
      await node('gone', { state: 'left' });
      for (const name of ['gone', 'unheard-of']) await item(await insert(), lease(name));
      await batch([await insert(), await insert()], lease('gone'));
      return ['gone', 'unheard-of'];
    },
    after: async () => {
      expect((await operator.jobs.list({ status: 'ready' })).items).toHaveLength(4);
    },
  },
  {
    check: 'expired_leases',
    seed: async () => {
      await node('n');
      const id = await insert();
      await item(id, lease('n', '2026-01-01T00:00:00Z'));
      const ids = [await insert(), await insert()];
      await batch(ids, lease('n', '2026-01-01T00:00:00Z'));
      return [id, ...ids];
    },
    after: async (ids) => {
      for (const id of ids) {
        expect(await operator.jobs.get(id)).toMatchObject({ status: 'ready', crashes: 1 });
      }
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
      // a node reports the number of jobs that it has leases of, those in batches included
      await batch([await insert(), await insert()], lease('forgets'));
      await item(await insert(), lease('knows'));
      await sql(
        `update pgqueue.work_queue set started = now() - interval '2 minutes', lock_timeout = now() + interval '1 hour'`,
      );
      // claimed after the heartbeat that reported the number: not counted yet
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
  {
    check: 'unreadable_rows',
    mendable: false,
    seed: async () => {
      await sql(
        `update pgqueue.scheduler_lease set leader = 'l', epoch = 7, expires = clock_timestamp() + interval '1 hour'`,
      );
      await sql(`insert into pgqueue.scheduler_report (leader, epoch, written, report)
        values ('l', 7, clock_timestamp(), '{"unreadable": [{"kind": "node", "id": "python-1"}]}')`);
      return ['node python-1'];
    },
  },
  policyBreakage({ sql }),
  ...unmended({ sql }),
  objectsBreakage({ sql }),
  ...flowBreakages({ sql, run }),
];

describe('doctor', () => {
  test('finds nothing in a sound installation, at rest and at work', async () => {
    const running = await insert();
    await node('n');
    await item(running, lease('n'));
    const first = await batch([await insert(), await insert()], lease('n'));
    await batch([await insert(), await insert()]);
    await sql('insert into pgqueue.work_front (item, batch) values (0, $1)', [first]);
    await bury(await insert().then(async (id) => (await operator.jobs.erase([id]), id)));
    await finish('00000000-0000-7000-8000-00000000000c');
    const { findings, healthy, checked } = await operator.doctor();
    expect(findings).toEqual([]);
    expect(healthy).toBe(true);
    expect([...checked].sort()).toEqual([...elsewhere, ...breakages.map(({ check }) => check)].sort());
  });

  test('an id that is used again is another job, and no damage', async () => {
    const ids = Array.from({ length: 3 }, (_, n) => `00000000-0000-7000-8000-0000000000a${n}`);
    const [afterDone = '', afterDead = '', diedAfterDone = ''] = ids;
    for (const id of [afterDone, diedAfterDone]) await finish(id);
    await bury(afterDead);
    for (const id of [afterDone, afterDead]) await insert({ id });
    await bury(diedAfterDone);
    expect((await operator.doctor({ mend: true })).findings).toEqual([]);
    expect(await sql('select from pgqueue.queue')).toHaveLength(2);
    expect(await sql('select from pgqueue.dead_letter')).toHaveLength(2);
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

  test('names the session that keeps history from being maintained', async () => {
    const holder = await database.pool.connect();
    try {
      await holder.query(`set application_name = 'somebody else'`);
      await holder.query(`select pg_advisory_lock(hashtextextended('pgqueue:history', 0))`);
      expect((await operator.doctor()).findings).toEqual([]);
      const [{ name }] = await sql(
        `select 'history_' || to_char((now() at time zone 'UTC')::date + 1, 'YYYYMMDD') as name`,
      );
      await sql(`drop table pgqueue.${name}`);
      const { findings } = await operator.doctor({ mend: true });
      const [pid] = (await holder.query('select pg_backend_pid() as pid, current_user as name')).rows;
      expect(findings).toMatchObject([
        { check: 'history_partitions', mended: { left: 1, error: null } },
        {
          check: 'history_lock',
          samples: [`pid ${pid.pid}, user ${pid.name}, application somebody else`],
          mended: null,
        },
      ]);
    } finally {
      holder.release(true);
    }
    await expect.poll(async () => (await operator.doctor({ mend: true })).healthy).toBe(true);
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
