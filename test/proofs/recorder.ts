// Test-only triggers that record every moment of every work item, in the same transactions, so that an
// observer outside can't miss one.
import type { Database } from '@pgqueue/postgres';

/** One job's life in work items, from its dispatch to its end; times in Unix milliseconds of the database's clock. */
export interface RecordedItem {
  readonly id: string;
  readonly position: number;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  readonly priority: number;
  readonly seq: number;
  /** Its attribute `tenant`; `''` if it has none. */
  readonly tenant: string;
  readonly tries: number;
  /** Time at which the row was written, before its transaction committed. */
  readonly insertedMs: number;
  /** The dispatch time in column `dispatched`, set by the database. */
  readonly dispatchedMs: number;
  /** Time of its first lease. */
  readonly leasedMs: number | null;
  /** Number of its leases: more than one after a crash or a steal. */
  readonly leases: number;
  /** Time right before the commit that removed the row. */
  readonly endedMs: number | null;
}

/**
 * Each job of a batch has a life of its own, in the order of the batch. When a batch is taken apart, its old
 * row is deleted, and the lives of its jobs continue in the new rows, which have the time of the same
 * dispatch. The recorded stretch is the widest possible. It begins with the insert, whose commit comes later.
 * It ends in a deferred constraint trigger, right before the commit that removes the row.
 */
const ddl = `
  create schema proof;
  create table proof.item (
    position float8 not null, place bigint not null, id uuid not null, queue text not null, key text not null, task text not null, priority integer not null,
    seq bigint not null, tenant text not null, tries integer not null, inserted timestamptz not null, dispatched timestamptz not null,
    leased timestamptz, leases integer not null default 0, ended timestamptz);
  create index on proof.item (place);
  create index on proof.item (id);
  create function proof.on_insert() returns trigger language plpgsql as $$
  begin
    update proof.item i set place = new.position
    where i.id = any (coalesce(new.jobs, array[new.id])) and i.dispatched = new.dispatched and i.ended is null
      and not exists (select from pgqueue.work_queue w where w.position = i.place);
    insert into proof.item (position, place, id, queue, key, task, priority, seq, tenant, tries, inserted, dispatched)
    select new.position + (u.n - 1) * 0.001, new.position, q.id, q.queue, q.key, q.task, q.priority, q.seq, coalesce(q.attributes ->> 'tenant', ''), q.tries,
           clock_timestamp(), new.dispatched
    from unnest(coalesce(new.jobs, array[new.id])) with ordinality u (id, n) join pgqueue.queue q on q.id = u.id
    where not exists (select from proof.item i where i.id = u.id and i.place = new.position);
    return null;
  end $$;
  create function proof.on_lease() returns trigger language plpgsql as $$
  begin
    update proof.item set leased = coalesce(leased, clock_timestamp()), leases = leases + 1 where place = new.position;
    return null;
  end $$;
  create function proof.on_delete() returns trigger language plpgsql as $$
  begin
    update proof.item set ended = clock_timestamp() where place = old.position;
    return null;
  end $$;
  create trigger proof_insert after insert on pgqueue.work_queue for each row execute function proof.on_insert();
  create trigger proof_lease after update on pgqueue.work_queue for each row
    when (new.lock_token is not null and new.lock_token is distinct from old.lock_token) execute function proof.on_lease();
  create constraint trigger proof_delete after delete on pgqueue.work_queue deferrable initially deferred
    for each row execute function proof.on_delete();
`;

export async function record(database: Database): Promise<void> {
  await database.pool.query(ddl);
}

/** Returns all recorded items in the order of dispatch. */
export function recordedItems(database: Database): Promise<readonly RecordedItem[]> {
  return database.query<RecordedItem>(
    `select id, position, queue, key, task, priority, seq::float8 as seq, tenant, tries, leases,
            extract(epoch from inserted)::float8 * 1000 as "insertedMs",
            extract(epoch from dispatched)::float8 * 1000 as "dispatchedMs",
            extract(epoch from leased)::float8 * 1000 as "leasedMs",
            extract(epoch from ended)::float8 * 1000 as "endedMs"
     from proof.item order by position`,
    [],
  );
}

/** Returns the time of the database's clock, in Unix milliseconds. */
export async function databaseNow(database: Database): Promise<number> {
  const [row] = await database.query<{ now: number }>(
    'select extract(epoch from clock_timestamp())::float8 * 1000 as now',
    [],
  );
  return row?.now ?? NaN;
}
