import { isDeepStrictEqual } from 'node:util';
import type { Codec, Enqueued, JobOptions, NewJob, Observer, Task, TraceContext } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  checkJobList,
  countByTask,
  encodedRow,
  encodedRows,
  isTask,
  placeOf,
  unreachable,
} from '@pgqueue/core/internal';
import { carrying, sendingOf, traceSend } from '@pgqueue/telemetry/internal';
import type { Ids } from './ids.ts';
import type { TraceSource } from './rows.ts';
import { toRow, toRows } from './rows.ts';

/** Enqueues jobs. Everything about a job is checked before any I/O: `PgQueueError` with code `invalid_job` and all problems. */
export interface Enqueuer {
  /**
   * One job of a task. `options` override what the task says.
   * @throws {PgQueueError} `invalid_job`, `schema_version`, `too_many_pending`
   */
  enqueue<Input, Result = unknown>(
    task: Task<Input, unknown, unknown, Result>,
    payload: NoInfer<Input>,
    options?: JobOptions,
  ): Promise<Enqueued<Result>>;
  /**
   * Many jobs with one statement, all or none; resolves to what became of each, in the same order. Up to 50,000 jobs and 64 MiB
   * of payloads. Within a key and priority they run in the order given; those with a unique key come after the others.
   * @throws {PgQueueError} `invalid_job`, naming the jobs by their index; `schema_version`, `too_many_pending`
   */
  enqueueMany<const Jobs extends readonly NewJob[]>(jobs: Jobs): Promise<EnqueuedOf<Jobs>>;
  /**
   * One job of a task that is known here by its name only: no schema checks the payload until a worker has it.
   * @throws {PgQueueError} as `enqueue`
   */
  enqueueByName(
    name: string,
    payload?: unknown,
    options?: JobOptions & { readonly payloadVersion?: number },
  ): Promise<Enqueued>;
}

/** Outcomes of the enqueues of several jobs, in their order, each with the type of its result. */
export type EnqueuedOf<Jobs extends readonly NewJob[]> = {
  readonly [Index in keyof Jobs]: Enqueued<Jobs[Index] extends NewJob<infer Result> ? Result : unknown>;
};

/** Enqueues rows somewhere. */
export type Write = (rows: readonly JobRow[], options: WriteOptions) => Promise<readonly Enqueued[]>;

/** Older job that is to take the payload of a row. */
export interface TakenOver {
  /** Index of the row. */
  readonly index: number;
  /** Id of the older job. */
  readonly id: string;
  /** Payload (JSON text) that the older job has; undefined: it is not encoded. */
  readonly stored: string | undefined;
}

export interface WriteOptions {
  /** Some of the ids may have been enqueued before. */
  readonly again: boolean;
  /**
   * Returns the row of a job whose payload an older job is to take, encoded for the id of that one; undefined: that one has
   * an equal payload. Undefined: no payload of these rows is bound to an id.
   */
  readonly rebound?: ((taken: TakenOver) => JobRow | undefined) | undefined;
  /** Not repeated after a transient error. For a producer without a router. */
  readonly once?: boolean;
}

export interface EnqueuerParts {
  readonly write: Write;
  /** Checks the schema before the first write. */
  readonly check: () => Promise<void>;
  readonly ids: Ids;
  readonly trace: TraceSource | undefined;
  readonly observe: Observer;
  readonly codec: Codec | undefined;
  /** Holds what has not been answered yet. */
  readonly underWay: Set<Promise<unknown>>;
  readonly isClosed: () => boolean;
}

/** Jobs as they are written. */
interface Encoded extends Pick<WriteOptions, 'rebound'> {
  readonly rows: readonly JobRow[];
}

/** Checks jobs, writes them, and tells of them. */
export function createEnqueuer(parts: EnqueuerParts): Enqueuer {
  const { trace, ids, underWay, codec } = parts;
  const making = { trace, makeId: ids.make };

  /** Encodes jobs: before any I/O, so that what is refused for its size is. */
  const encoded = async (make: () => Promise<readonly JobRow[]>): Promise<Encoded> => {
    const plain = await make();
    const rows = encodedRows(codec, plain);
    return { rows, rebound: codec === undefined ? undefined : reboundTo(codec, { plain, rows }) };
  };

  const send = async (
    make: () => Promise<readonly JobRow[]>,
    hasId: () => boolean,
  ): Promise<readonly Enqueued[]> => {
    let made = await encoded(make);
    const again = hasId();
    if (parts.isClosed()) throw new PgQueueError('configuration', 'this producer was closed');
    if (made.rows.length === 0) return [];
    const write = (carried: TraceContext | undefined): Promise<readonly Enqueued[]> => {
      const { rows, rebound } = made;
      return parts.write(carried === undefined ? rows : carrying(rows, carried), { again, rebound });
    };
    const writing = traceSend(
      () => sendingOf(made.rows),
      (carried) => {
        const settling = ids.settle(parts.check);
        if (settling === undefined) return write(carried);
        return settling.then(async (anew) => {
          if (anew) made = await encoded(make);
          return write(carried);
        });
      },
      (written) => written.map(({ id }) => id),
    );
    underWay.add(writing);
    try {
      const enqueued = await writing;
      tell(parts.observe, made.rows, enqueued);
      return enqueued;
    } finally {
      underWay.delete(writing);
    }
  };

  const one = async (job: NewJob): Promise<Enqueued> => {
    const [enqueued] = await send(
      async () => [await toRow(job, making)],
      () => job.options.id !== undefined,
    );
    if (enqueued === undefined) throw new PgQueueError('invariant', 'an enqueue got no answer');
    return enqueued;
  };

  return {
    enqueue: async (task, payload, options) => {
      if (isTask(task)) return (await one(task.job(payload, options))) as Enqueued<never>;
      throw new PgQueueError(
        'invalid_job',
        'enqueue takes a task, made by defineTask; enqueueByName takes its name',
      );
    },
    enqueueMany: async <const Jobs extends readonly NewJob[]>(jobs: Jobs) => {
      checkJobList(jobs, 'enqueueMany');
      return (await send(
        () => toRows(jobs, making),
        () => jobs.some(({ options }) => options.id !== undefined),
      )) as EnqueuedOf<Jobs>;
    },
    enqueueByName: async (name, payload, given = {}) => {
      const job = { task: name, payload, payloadVersion: 1, check: unchecked };
      // refused with all else that is wrong with it
      if (typeof given !== 'object' || given === null) return one({ ...job, options: given });
      const { payloadVersion = 1, ...options } = given;
      return one({ ...job, payloadVersion, options });
    },
  };
}

/** Returns what encodes payloads for the ids of older jobs; undefined: none of these jobs can take one's place. */
function reboundTo(
  codec: Codec,
  { plain, rows }: { readonly plain: readonly JobRow[]; readonly rows: readonly JobRow[] },
): WriteOptions['rebound'] {
  const takes = ({ unique }: JobRow): boolean =>
    unique?.onConflict === 'replace' || unique?.onConflict === 'debounce';
  if (!plain.some(takes)) return undefined;
  return ({ index, id, stored }) => {
    const row = { ...(plain[index] as JobRow), id };
    if (stored !== undefined && isPayloadOf(codec, row, stored)) return undefined;
    const { payload } = encodedRow(codec, row);
    return { ...(rows[index] as JobRow), payload };
  };
}

/** Reports whether a stored payload (JSON text) is equal to that of a row; one that can't be decoded is not. */
function isPayloadOf(codec: Codec, row: JobRow, stored: string): boolean {
  try {
    const value = codec.decode(JSON.parse(stored), placeOf(row, 'payload'));
    return isDeepStrictEqual(value, JSON.parse(row.payload));
  } catch {
    return false;
  }
}

/** Tells of jobs that were enqueued. */
export function tell(observe: Observer, rows: readonly JobRow[], enqueued: readonly Enqueued[]): void {
  const [first] = rows;
  if (first !== undefined && rows.length === 1) {
    const { queue, task } = first;
    if (isNew(enqueued[0])) observe({ type: 'enqueued', count: 1, queue, task });
    return;
  }
  const added = rows.filter((_, index) => isNew(enqueued[index]));
  for (const { queue, task, jobs } of countByTask(added))
    observe({ type: 'enqueued', count: jobs, queue, task });
}

function isNew(enqueued: Enqueued | undefined): boolean {
  const outcome = enqueued?.outcome;
  switch (outcome) {
    case 'enqueued':
    case 'superseded':
      return true;
    case 'repeated':
    case 'kept':
    case 'replaced':
    case 'debounced':
    case undefined:
      return false;
    default:
      return unreachable(outcome);
  }
}

const unchecked = (): readonly string[] => [];
