import { PgQueueError } from '@pgqueue/core';
import type { Database } from '../../connection/database.ts';
import { createdObjects } from '../../migrate/created-objects.ts';
import { readSchemaVersion } from '../../reads/system.ts';
import type { Expectation } from './checks.ts';
import type { Breach } from './invariants.ts';

/** Condition of all other checks, which read these objects. */
export const presentObjects: Expectation = {
  name: 'missing_objects',
  says: 'every table, function, view and trigger of the migrations exists, and no trigger is disabled',
  severity: 'error',
  remedy:
    'create them as the files in migrations/ say, and enable the triggers ("alter table … enable trigger all"); for a table that had jobs, restore a backup. Then run the doctor again: nothing else was checked',
};

/**
 * Looks for what the applied migrations have created: after a restore that was broken off, triggers are disabled, and a tool that
 * knows only its own tables drops others. Undefined: this code is in a bundle, without the migrations.
 */
export async function missingObjects(database: Database): Promise<Breach | undefined> {
  const objects = objectsUpTo(await readSchemaVersion(database));
  if (objects === undefined) return undefined;
  const rows = await database.query<{ id: string }>(
    `select concat(o.kind, ' ', o.name) as id
     from unnest($1::text[], $2::text[]) as o (kind, name)
     where not case o.kind
       when 'function' then exists (
         select from pg_proc p where p.pronamespace = $3::regnamespace and p.proname = o.name)
       when 'trigger' then exists (
         select from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = $3::regnamespace and t.tgname = o.name and t.tgenabled in ('O', 'A'))
       else exists (
         select from pg_class c where c.relnamespace = $3::regnamespace and c.relname = o.name) end
     order by 1`,
    [objects.map(({ kind }) => kind), objects.map(({ name }) => name), database.schema],
  );
  return {
    name: presentObjects.name,
    count: rows.length,
    samples: rows.slice(0, 10).map(({ id }) => id),
  };
}

function objectsUpTo(version: number): ReturnType<typeof createdObjects> | undefined {
  try {
    return createdObjects(version);
  } catch (error) {
    if (error instanceof PgQueueError && error.code === 'configuration') return undefined;
    throw error;
  }
}
