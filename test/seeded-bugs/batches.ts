// Scenarios with batches.
import { randomUUID } from 'node:crypto';
import type { ClaimedRow, EndedRow } from '@pgqueue/postgres/internal';
import {
  claimRows,
  dispatch,
  fromPg,
  lead,
  releaseRows,
  settleRows,
  takeBack,
} from '@pgqueue/postgres/internal';
import { dispatchAll } from '../support/dispatch-all.ts';
import { until } from '../support/until.ts';
import type { Member, Stage } from './stage.ts';

type Scenario = (stage: Stage) => Promise<void>;

const size = 3;

/** So many jobs, as one work item. */
async function batch(stage: Stage): Promise<readonly string[]> {
  stage.facts();
  const ids = await stage.enqueue({ count: size });
  await dispatchAll(stage.database, 'default', size);
  return ids;
}

/** Claims one work item, which must be the batch. `begins`: its handlers do, too. */
async function claimed(
  { database, write }: Stage,
  { id: node, incarnation }: Member,
  begins: boolean,
): Promise<EndedRow> {
  const input = { node, incarnation, max: 1, ahead: 0, token: randomUUID(), from: 0, reap: false };
  const {
    rows: [row],
  } = await claimRows(database, input);
  if (row?.size !== size) throw new Error('the batch was not claimed whole');
  if (begins) for (const { id, token } of row.jobs) write({ type: 'start', id, token, node });
  return endedOf(row, input.token);
}

function endedOf({ position, jobs }: ClaimedRow, token: string): EndedRow {
  return { position, token, busyMs: jobs.map(() => 1), data: jobs.map(() => null) };
}

/** A leader plans once more what it has planned: its look was older. */
const plannedTwice: Scenario = async (stage) => {
  const { database } = stage;
  const ids = await batch(stage);
  const { epoch } = await lead(database, 'test-dispatcher', 60_000);
  const jobs = ids.map((id) => ({ id, pool: 'default', rowVersion: null, bundle: null }));
  await dispatch(database, {
    leader: 'test-dispatcher',
    epoch,
    jobs,
    parts: null,
    settled: [],
    notify: false,
  });
  await stage.look();
  await settleRows(database, [await claimed(stage, await stage.node('n1'), true)]);
};

/** A leader wants a batch back while it is being settled. */
const takenWhileSettled: Scenario = async (stage) => {
  const { database } = stage;
  const ids = await batch(stage);
  const row = await claimed(stage, await stage.node('n1'), true);
  const { epoch } = await lead(database, 'test-dispatcher', 60_000);
  const client = await database.pool.connect();
  try {
    await client.query('begin');
    await settleRows({ ...fromPg(client), schema: database.schema }, [row]);
    let answered = false;
    const back = takeBack(database, { leader: 'test-dispatcher', epoch }, ids).finally(() => {
      answered = true;
    });
    await until('an answer, or a wait for the lock', async () => answered || (await waitsForLock(stage)));
    await client.query('commit');
    await back;
  } finally {
    client.release();
  }
};

async function waitsForLock({ database }: Stage): Promise<boolean> {
  const rows = await database.query(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    [],
  );
  return rows.length > 0;
}

/** A node gives a batch back that it has not begun, another one runs it; then the first speaks of it. */
const givenBack: Scenario = async (stage) => {
  const { database } = stage;
  await batch(stage);
  const stale = await claimed(stage, await stage.node('n1'), false);
  await releaseRows(database, [stale]);
  const newest = await claimed(stage, await stage.node('n2'), true);
  await settleRows(database, [stale]);
  await settleRows(database, [newest]);
};

export const batchScenarios: Readonly<Record<string, Scenario>> = {
  'planned twice': plannedTwice,
  'taken while it is settled': takenWhileSettled,
  'given back': givenBack,
};
