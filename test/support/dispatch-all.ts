import type { Database } from '@pgqueue/postgres';
import { dispatch, lead, readTick } from '@pgqueue/postgres';

const chunkMax = 1_000;

/** Schedules everything that is pending, in place of a scheduler; resolves to the number of jobs. Promotes nothing. */
export async function dispatchAll(database: Database, pool = 'default'): Promise<number> {
  const leader = 'test-dispatcher';
  let dispatched = 0;
  for (;;) {
    const { epoch } = await lead(database, leader, 60_000);
    const { candidates } = await readTick(database, {
      cursors: {},
      starts: {},
      want: chunkMax,
      keys: chunkMax,
      lookahead: 1,
      due: false,
    });
    const jobs = candidates.flatMap(({ id }) => (id === null ? [] : [{ id, pool }]));
    const written = await dispatch(database, {
      leader,
      epoch,
      jobs,
      policy: 'test',
      state: null,
      notify: true,
    });
    dispatched += written.size;
    if (written.size === 0) return dispatched;
  }
}

/** Makes what is delayed due, and schedules it. */
export async function promoteAll(database: Database): Promise<number> {
  await database.query(
    `update ${database.schema}.queue set run_after = null where run_after is not null`,
    [],
  );
  return dispatchAll(database);
}
