import type { Database } from '@pgqueue/postgres';
import { dispatch, lead, readTick } from '@pgqueue/postgres/internal';

const chunkMax = 1_000;

/** Schedules everything that is pending, in place of a scheduler, `batch` jobs a work item; resolves to the number of jobs. Promotes nothing. */
export async function dispatchAll(database: Database, pool = 'default', batch = 1): Promise<number> {
  const leader = 'test-dispatcher';
  let dispatched = 0;
  for (;;) {
    const { epoch } = await lead(database, leader, 60_000);
    const { lanes } = await readTick(database, {
      after: { queue: '', key: '' },
      keys: chunkMax,
      want: chunkMax,
      starts: {},
      ranges: {},
      lookahead: 1,
      lanes: [],
      created: null,
      settled: false,
      itemsFrom: 0,
      items: [],
      due: false,
    });
    const waiting = lanes.flatMap((lane) =>
      lane.jobs.map(({ id, rowVersion }) => ({ id, pool, rowVersion, bundle: null })),
    );
    const jobs =
      batch === 1 ? waiting : waiting.map((job, index) => ({ ...job, row: Math.floor(index / batch) + 1 }));
    const plan = { leader, epoch, jobs, parts: null, settled: [], notify: true };
    const { positions: written } = await dispatch(database, plan);
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
