import { PgQueueError } from '@pgqueue/core';
import type { Database, Executor } from '@pgqueue/postgres';
import { createResultWaits, toExecutor } from '@pgqueue/postgres/internal';
import { asRole, keyIsTaken } from '@pgqueue/postgres/internal/dashboard';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import type { Office } from '../desk.ts';
import { Problem } from '../problem.ts';
import { keyReused } from './idempotency.ts';
import type { ResultAnswer } from './results.ts';
import { resultAnswer } from './results.ts';

/** Producer behind the HTTP API; its statements run as the database role of producers. */
export interface ApiProducer {
  /**
   * Enqueues and signals. With `keyed`, the ids that an idempotency key gives to the jobs of a request, only if the
   * key has no jobs of another request.
   */
  readonly writing: (keyed?: readonly string[]) => ReturnType<Producer['with']>;
  /**
   * Waits for the end of a job. The signal ends the wait: then it rejects with the reason.
   * @throws {Problem} `busy`: too many wait; `not_found`, `database`
   */
  readonly result: (
    id: string,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ) => Promise<ResultAnswer>;
  /** Rejects all waits. Does not close the database. */
  readonly close: () => Promise<void>;
}

/** Opens the producer behind the HTTP API. Undefined: the API is off. */
export function openApiProducer(
  database: Database,
  office: Office,
  connectionString: string | undefined,
): ApiProducer | undefined {
  const { api, codec, databaseRoles, statementTimeoutMs } = office.settings;
  if (api === undefined) return undefined;
  const role = databaseRoles?.producer ?? null;
  const own = asRole(database, { role, statementTimeoutMs });
  const producer = createProducer({
    pool: database.pool,
    schema: database.schema,
    ...(codec === undefined ? {} : { codec }),
  });
  const waits = createResultWaits({
    database: own,
    connectionString: api.listen ? connectionString : undefined,
    applicationName: 'pgqueue api results',
    observe: () => {},
    verify: office.ready,
  });
  let waiting = 0;
  let closed = false;
  return {
    writing: (keyed) => {
      if (closed) throw stopping();
      return producer.with(keyed === undefined ? own : guarded(own, keyed));
    },
    result: async (id, { timeoutMs, signal }) => {
      if (waiting >= api.waitsMax)
        throw new Problem('busy', 'too many requests wait for results at once: try again in a second');
      waiting += 1;
      try {
        return resultAnswer(id, await waits.wait(id, timeoutMs, signal), codec);
      } finally {
        waiting -= 1;
      }
    },
    close: async () => {
      closed = true;
      await waits.stop(stopping());
      await producer.close();
    },
  };
}

function stopping(): PgQueueError {
  return new PgQueueError('closed', 'the dashboard stops: ask again');
}

/** Runs each statement in a transaction that checks the idempotency key first. An enqueue is one statement. */
function guarded(database: Database, keyed: readonly string[]): Executor {
  const { schema } = database;
  return {
    query: <Row>(text: string, values: readonly unknown[]) =>
      database.transaction(async (client) => {
        const executor = toExecutor(client);
        if (await keyIsTaken({ ...executor, schema }, keyed)) throw keyReused();
        return executor.query<Row>(text, values);
      }),
  };
}
