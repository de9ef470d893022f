import type { SqlBug } from './sql.ts';

// Mistakes in what concerns batches.

/** Makes a second work item for a job that is in a batch. */
export const dispatchBlind: SqlBug = {
  function: 'dispatch(text,bigint,uuid[],xid[],jsonb,boolean)',
  edits: [{ from: ' and q.id <> all (v_batched)', to: '' }],
};

/** Reads what a batch holds, and replaces it afterwards, whatever has become of it. */
export const apartUnlocked: readonly SqlBug[] = [
  {
    function: 'take_apart(bigint[],uuid[])',
    edits: [
      {
        from: `with gone as (
    delete from work_queue w where w.position = any (p_positions) and w.jobs is not null
    returning w.*, w.together is not null and w.lock_key is null as waits
  ),`,
        to: `with gone as materialized (
    select w.*, w.together is not null and w.lock_key is null as waits from work_queue w where w.position = any (p_positions) and w.jobs is not null
  ),
  removed as (
    delete from work_queue w where w.position = any (p_positions) and w.jobs is not null
  ),`,
      },
    ],
  },
  { function: 'spread(uuid[])', edits: [{ from: 'for update skip locked) x;', to: ') x;' }] },
  {
    function: 'take_out(bigint,uuid,uuid[])',
    edits: [{ from: 'and w.jobs is not null for update;', to: 'and w.jobs is not null;' }],
  },
];

/** Takes the place of a batch for the lease of it. */
export const rowsUnfenced: SqlBug = {
  function: 'settle_rows(bigint[],uuid[],integer[],real[],text[])',
  edits: [{ from: 'and w.lock_token = g.token', to: '' }],
};
