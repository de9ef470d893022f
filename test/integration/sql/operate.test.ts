import { amend, erase, expire, fireSchedule, redrive } from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Member, Session } from './support.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
let node: Member;
let first: Session;
let second: Session;
let third: Session;
beforeEach(async () => {
  await ground.reset();
  node = await ground.node();
  [first, second, third] = await Promise.all([ground.session(), ground.session(), ground.session()]);
});
afterEach(async () => {
  await Promise.all([first, second, third].map((session) => session.end()));
  await ground.sound();
});

const a = '00000000-0000-7000-8000-00000000000a';
const b = '00000000-0000-7000-8000-00000000000b';
const fresh = '00000000-0000-7000-8000-00000000000f';

interface Unique {
  readonly id?: string;
  readonly key?: string | null;
  readonly mode?: string | null;
  readonly again?: boolean;
}
const unique = (...jobs: readonly Unique[]): string => {
  const rows = jobs.map(({ id, key = 'u', mode = 'replace', again = false }, n) => ({
    n,
    id,
    task: 'hello',
    unique_key: key,
    mode,
    payload: { new: true },
    again,
  }));
  return `select ordinal, outcome from pgqueue.enqueue_unique('${JSON.stringify(rows)}') order by 1`;
};
const settleOf = (leases: readonly { readonly id: string; readonly token: string }[]): string =>
  `select job_id from pgqueue.settle(array['${leases.map(({ id }) => id).join("','")}']::uuid[],
     array['${leases.map(({ token }) => token).join("','")}']::uuid[], array_fill('done'::text, array[${leases.length}]),
     array_fill(null::float8, array[${leases.length}]), array_fill(null::text, array[${leases.length}]))`;

async function dead(columns: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const lease = await ground.running(node, columns);
  await ground.settle([lease], 'dead', { data: { message: 'no' } });
  return lease.id;
}

describe('unique keys', () => {
  const claim = (): string => `select payload from pgqueue.claim('node', '${node.incarnation}', 10)`;

  test('replace × claim: a claim under way keeps the old payload, and the new job waits behind it', async () => {
    await ground.dispatch([await ground.insert({ id: a, unique_key: 'u', payload: { old: true } })]);
    await first.sql('begin');
    expect(await first.sql(claim())).toEqual([{ payload: { old: true } }]);
    expect(await second.sql(unique({ id: fresh }))).toEqual([{ ordinal: 0, outcome: 'enqueued' }]);
    await first.sql('commit');
    expect(await ground.job(a)).toMatchObject({ status: 'running', unique_key: null });
    expect(await ground.job(fresh)).toMatchObject({ status: 'pending', unique_key: 'u' });
  });

  test('replace × claim: a ready job is taken back, so that nobody reads its old payload', async () => {
    await ground.dispatch([await ground.insert({ id: a, unique_key: 'u', payload: { old: true } })]);
    await first.sql('begin');
    expect(await first.sql(unique({ id: fresh }))).toEqual([{ ordinal: 0, outcome: 'replaced' }]);
    expect(await second.sql(claim())).toEqual([]);
    await first.sql('commit');
    await ground.dispatch([a]);
    expect(await second.sql(claim())).toEqual([{ payload: { new: true } }]);
  });

  test('replace × settle: two batches over the same running jobs do not deadlock', async () => {
    const leases = [
      await ground.running(node, { id: a, unique_key: 'z' }),
      await ground.running(node, { id: b, unique_key: 'y' }),
    ];
    await third.sql('begin');
    await third.sql('select from pgqueue.queue where id = $1 for update', [a]);
    const settling = await ground.waiting(first, settleOf(leases));
    const replacing = await ground.waiting(second, unique({ key: 'y' }, { key: 'z' }));
    await third.sql('commit');
    expect(await settling.answer).toHaveLength(2);
    expect(await replacing.answer).toMatchObject([{ outcome: 'enqueued' }, { outcome: 'enqueued' }]);
  });

  test('keep is the mode where none is given; others are refused', async () => {
    await ground.insert({ id: a, unique_key: 'u', payload: { old: true } });
    expect(await first.sql(unique({ mode: null }))).toEqual([{ ordinal: 0, outcome: 'kept' }]);
    expect(await ground.one('select payload from pgqueue.queue')).toEqual({ old: true });
    await expect(first.sql(unique({ mode: 'swallow' }))).rejects.toThrow(
      'mode is keep, replace, debounce or supersede',
    );
  });

  test('a repeated enqueue that waits for the settlement of its own id is known as repeated', async () => {
    const lease = await ground.running(node, { id: a });
    await first.sql('begin');
    await first.sql(settleOf([lease]));
    const { answer } = await ground.waiting(second, unique({ id: a, key: null, again: true }));
    await first.sql('commit');
    expect(await answer).toEqual([{ ordinal: 0, outcome: 'repeated' }]);
    expect(await ground.job(a)).toMatchObject({ status: 'done' });
  });

  test('a repeated enqueue that waits for its own settlement leaves the job alone that has its key now', async () => {
    const lease = await ground.running(node, { id: a });
    await ground.insert({ id: b, unique_key: 'u', payload: { newer: true } });
    await first.sql('begin');
    await first.sql(settleOf([lease]));
    const { answer } = await ground.waiting(second, unique({ id: a, again: true }));
    await first.sql('commit');
    expect(await answer).toEqual([{ ordinal: 0, outcome: 'repeated' }]);
    expect(await ground.sql('select id, payload from pgqueue.queue')).toEqual([
      { id: b, payload: { newer: true } },
    ]);
  });

  test('jobs without a unique key keep the order of the input', async () => {
    const ids = [b, fresh, a];
    await first.sql(unique({ key: 'k' }, ...ids.map((id) => ({ id, key: null, again: true }))));
    const rows = await ground.sql('select id from pgqueue.queue where unique_key is null order by seq');
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });
});

describe('stricter isolation than READ COMMITTED', () => {
  test.each(['repeatable read', 'serializable'])(
    '%s is refused where an old snapshot would hide a work item',
    async (level) => {
      const id = await ground.insert({ unique_key: 'u' });
      const { incarnation } = await ground.node('n');
      const { leader, epoch } = ground.leader();
      for (const [what, call] of [
        ['an enqueue that replaces, debounces or supersedes', unique({})],
        ['an enqueue with an id of its own', unique({ id: fresh, key: null, mode: 'keep', again: true })],
        [
          'a registration of a node',
          `select * from pgqueue.register_node('m', '{"a": {"min": 1, "max": 1}}')`,
        ],
        ['the return of a claim', `select pgqueue.release_claim('n', '${incarnation}', gen_random_uuid())`],
        ['the end of a node', `select pgqueue.leave_node('n', '${incarnation}')`],
        ['the end of a node', `select * from pgqueue.reset_node('n')`],
        ['the leader', `select * from pgqueue.lose_nodes('${leader}', ${epoch})`],
        ['a change of waiting jobs', `select * from pgqueue.cancel(array['${id}']::uuid[])`],
        ['a change of waiting jobs', `select pgqueue.amend(array['${id}']::uuid[], 1)`],
      ] as const) {
        await first.sql(`begin isolation level ${level}`);
        await expect(first.sql(call)).rejects.toMatchObject({
          code: '25001',
          message: `${what} needs a transaction that is read committed, and this one is ${level}`,
        });
        await first.sql('rollback');
      }
      await first.sql(`begin isolation level ${level}`);
      expect(await first.sql(unique({ mode: 'keep' }))).toEqual([{ ordinal: 0, outcome: 'kept' }]);
      await first.sql(`insert into pgqueue.queue (task) values ('hello')`);
      await first.sql('commit');
    },
  );
});

describe('cancel and amend', () => {
  test('a ready job is taken back by an amendment, and dispatched again in its new place', async () => {
    const id = await ground.insert();
    await ground.dispatch([id]);
    expect(
      await amend(ground.database, [id], { priority: -5, runAfter: new Date(Date.now() + 60_000) }),
    ).toEqual(new Set([id]));
    expect(await ground.job(id)).toMatchObject({ status: 'delayed', priority: -5 });
    expect(await amend(ground.database, [id], { runAfter: 'now' })).toEqual(new Set([id]));
    expect(await ground.job(id)).toMatchObject({ status: 'pending', priority: -5 });
    const running = await ground.running(node);
    expect(await amend(ground.database, [running.id], { priority: 1 })).toEqual(new Set());
    expect(await erase(ground.database, [running.id, id])).toEqual(new Set([id]));
  });

  test('× settle: who cancels waits for a retry, and ends it; one in the middle is busy', async () => {
    const [one, two] = [await ground.running(node, { id: a }), await ground.running(node, { id: b })];
    await third.sql('begin');
    await third.sql('select from pgqueue.queue where id = $1 for update', [a]);
    const { answer } = await ground.waiting(first, settleOf([one, two]));
    expect(await second.sql('select verdict from pgqueue.cancel(array[$1::uuid])', [b])).toEqual([
      { verdict: 'busy' },
    ]);
    await third.sql('commit');
    expect(await answer).toHaveLength(2);
  });

  test('a job that was told is told again, also while its holder has it locked', async () => {
    const lease = await ground.running(node);
    const cancel = `select verdict from pgqueue.cancel(array['${lease.id}']::uuid[])`;
    expect(await first.sql(cancel)).toEqual([{ verdict: 'signalled' }]);
    await second.sql('begin');
    await second.sql(`select * from pgqueue.extend('${lease.id}', '${lease.token}', interval '1 hour')`);
    expect(await first.sql(cancel)).toEqual([{ verdict: 'signalled' }]);
    await second.sql('commit');
    expect(await ground.sql('select * from pgqueue.cancel(array[gen_random_uuid()])')).toEqual([]);
  });
});

describe('redrive', () => {
  test('one and many, with fresh limits; the errors stay', async () => {
    const ids = [await dead(), await dead({ max_tries: 2 }), await dead()];
    expect(await redrive(ground.database, ids.slice(0, 1))).toEqual(new Set(ids.slice(0, 1)));
    expect(await redrive(ground.database, ids)).toEqual(new Set(ids.slice(1)));
    expect(await ground.job(ids[1] ?? '')).toMatchObject({
      status: 'pending',
      tries: 0,
      crashes: 0,
      max_tries: 2,
      errors: [{ message: 'no' }],
    });
    expect(await ground.one('select count(*)::integer from pgqueue.dead_letter')).toBe(0);
  });

  test('× enqueue: whichever came first has the unique key; a dead job that has lost it stays dead', async () => {
    const id = await dead({ unique_key: 'u' });
    const call = `select pgqueue.redrive(array['${id}']::uuid[]) as id`;
    await first.sql('begin');
    await first.sql(unique({}));
    const late = await ground.waiting(second, call);
    await first.sql('rollback');
    expect(await late.answer).toEqual([{ id }]);
    await ground.settle([await takeLease(id)], 'dead');
    await first.sql('begin');
    await first.sql(unique({}));
    const refused = await ground.waiting(second, call);
    await first.sql('commit');
    expect(await refused.answer).toEqual([]);
    expect(await ground.job(id)).toMatchObject({ status: 'dead' });
  });

  async function takeLease(id: string): Promise<{ readonly id: string; readonly token: string }> {
    await ground.dispatch([id]);
    const [claimed] = await ground.claim(node);
    return { id, token: claimed?.token ?? '' };
  }
});

describe('the sweeps of the scheduler', () => {
  test('jobs that did not start in time end as expired; those that run, run on', async () => {
    const past = { expires_at: new Date(Date.now() + 3_600_000) };
    const ids = [
      await ground.insert(past),
      await ground.insert({ ...past, run_after: new Date(Date.now() + 7_200_000) }),
    ];
    const ready = await ground.insert(past);
    const { id: running } = await ground.running(node, past);
    await ground.dispatch([ready]);
    await ground.sql('update pgqueue.queue set expires_at = clock_timestamp()');
    expect(await ground.claim(node)).toEqual([]);
    expect(await expire(ground.database, ground.leader(), 10)).toBe(3);
    for (const id of [...ids, ready]) expect(await ground.job(id)).toMatchObject({ status: 'expired' });
    expect(await ground.job(running)).toMatchObject({ status: 'running' });
  });

  test('promote and expire read what is due, not all that waits', async () => {
    await ground.sql(`insert into pgqueue.queue (task, run_after, expires_at)
      select 'hello', clock_timestamp() + interval '1 day', clock_timestamp() + interval '2 days' from generate_series(1, 3000)`);
    const reads = async (): Promise<number> => {
      await first.sql('select pg_stat_force_next_flush()');
      await first.sql('select 1');
      return Number(
        await ground.one(
          `select sum(idx_tup_read)::float8 from pg_stat_user_indexes where schemaname = 'pgqueue' and indexrelname in ('queue_due', 'queue_expiring')`,
        ),
      );
    };
    const before = await reads();
    const { epoch } = ground.leader();
    await first.sql(`select * from pgqueue.promote('leader', ${epoch}, 500)`);
    await first.sql(`select pgqueue.expire('leader', ${epoch}, 500)`);
    expect((await reads()) - before).toBeLessThan(50);
  });

  test('a slot of a schedule is enqueued once, whoever leads, with odd options too', async () => {
    await ground.sql(
      `insert into pgqueue.schedule (name, cron, task, options) values ('s', '* * * * *', 'hello', '{"retry": null, "attributes": null, "priority": 3}')`,
    );
    const read = { name: 's', cron: '* * * * *', timezone: 'UTC' };
    const slot = { ...read, slotMs: 1_800_000_000_000, nextMs: 1_800_000_060_000 };
    const { job } = await fireSchedule(ground.database, ground.leader(), slot);
    expect(await ground.job(String(job))).toMatchObject({ task: 'hello', priority: 3, status: 'pending' });
    const nothing = { job: null, refused: null };
    expect(await fireSchedule(ground.database, ground.leader(), slot)).toEqual(nothing);
    const changed = { ...slot, cron: '*/5 * * * *', slotMs: slot.nextMs, nextMs: slot.nextMs + 60_000 };
    expect(await fireSchedule(ground.database, ground.leader(), changed)).toEqual(nothing); // since it was read
    await expect(fireSchedule(ground.database, { leader: 'leader', epoch: 0 }, slot)).rejects.toMatchObject({
      code: 'PQ002',
    });
    expect(
      await ground.one(`select extract(epoch from next_slot)::float8 * 1000 from pgqueue.schedule`),
    ).toBe(slot.nextMs);
    expect(await ground.one('select count(*)::integer from pgqueue.queue')).toBe(1);
  });
});
