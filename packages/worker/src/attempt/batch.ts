import type { Batch, Done, Fate } from './attempt.ts';
import type { DoneRow } from '../lease/ended.ts';
import type { ClaimedJob } from '@pgqueue/core/internal';
import type { Lease, RowLease, Target } from '@pgqueue/postgres/internal';
import { takeApart, takeOut } from '@pgqueue/postgres/internal';
import type { Attempt } from './attempt.ts';
import type { Unit } from '../lease/unit.ts';
import type { Held } from '../lease/held-leases.ts';
import type { Settler } from '../settle/settler.ts';
import type { Ended, Told } from '../lease/ended.ts';

export interface BatchParts {
  readonly database: Target;
  readonly settler: Pick<Settler, 'settle' | 'settleRow' | 'release' | 'releaseRow' | 'before'>;
}

/**
 * Property under which a unit keeps its batch; only units that are leased as one row have one. In a WeakMap
 * each batch would outlive its settlement: a minor collection treats a map's values as live, and a batch
 * holds its unit.
 */
const batchKey: unique symbol = Symbol('batch');

export function batchOf(unit: Unit & { readonly [batchKey]?: Batch }): Batch | undefined {
  return unit[batchKey];
}

/**
 * Attaches a batch to a unit that is leased as one row. `size`: number of jobs in that row, readable or not.
 */
export function createBatch(parts: BatchParts, unit: Unit, size: number): Batch {
  const lease: RowLease = { position: unit[0].position, token: unit[0].token };
  const state = new BatchState(parts, unit, lease);
  Object.assign(unit, { [batchKey]: state });
  // One of the jobs could not be read. The batch is taken apart, so that the others do not fail with it.
  if (size !== unit.length) void state.apart();
  return state;
}

class BatchState implements Batch {
  readonly lease: RowLease;
  readonly jobs: Unit;
  readonly #parts: BatchParts;
  /** Finished jobs, as three parallel lists: an object for each job would live until the batch is settled. */
  readonly #attempts: Attempt[] = [];
  readonly #busyMs: number[] = [];
  readonly #data: (string | null)[] = [];
  readonly #others: Ended[] = [];
  readonly #released: ClaimedJob[] = [];
  readonly #fates = new Map<string, Fate>();
  #next = 0;
  /** Set once the batch is taken apart, given back, or settled in parts; each of these happens once. */
  #parting: Promise<void> | undefined;
  #isApart = false;

  constructor(parts: BatchParts, jobs: Unit, lease: RowLease) {
    [this.#parts, this.jobs, this.lease] = [parts, jobs, lease];
  }

  done(attempt: Attempt, { busyMs, data }: Done): void {
    if (this.#isApart) return this.#parts.settler.settle([doneEnded(attempt, busyMs, data)]);
    this.#attempts.push(attempt);
    this.#busyMs.push(busyMs);
    this.#data.push(data);
    this.#check();
  }

  ended(ended: Ended): void {
    if (this.#isApart) return this.#parts.settler.settle([ended]);
    this.#others.push(ended);
    this.#check();
  }

  get #ends(): number {
    return this.#attempts.length + this.#others.length;
  }

  #check(): void {
    if (this.#parting === undefined && this.#ends === this.jobs.length) void this.#finish();
  }

  release(job: ClaimedJob): void {
    if (this.#isApart) return this.#parts.settler.release([job]);
    this.#released.push(job);
    // The jobs of a bundle end together. A bundle that is given back as a whole goes to another node as it
    // is.
    if (job.bundle === null || this.#parting !== undefined) void this.apart();
    else if (this.#released.length === this.jobs.length) {
      this.#parting = Promise.resolve();
      this.#parts.settler.releaseRow(this);
    }
  }

  apart(): Promise<void> {
    return (this.#parting ??= this.#takeApart());
  }

  outlasted(): void {
    for (const job of this.jobs.slice(this.#next)) {
      if (this.fate(job) === 'lost') continue;
      this.#fates.set(job.id, 'lost');
      this.release(job);
    }
    void this.apart();
  }

  fate(job: ClaimedJob): Fate {
    return this.#fates.size === 0 ? 'runs' : (this.#fates.get(job.id) ?? 'runs');
  }

  begun(job: ClaimedJob): void {
    while (this.#next < this.jobs.length && this.jobs[this.#next++] !== job);
  }

  through(): void {
    // Some jobs were lost, cancelled or given back, so the batch cannot be settled as one.
    if (this.#parting === undefined && this.#ends < this.jobs.length) void this.apart();
  }

  *waiting(): Generator<Held> {
    for (const job of this.jobs.slice(this.#next)) {
      if (this.#fates.has(job.id)) continue;
      yield {
        lease: job,
        task: job.task,
        live: true,
        abort: (reason) => {
          this.#fates.set(job.id, fates[reason]);
        },
      };
    }
  }

  /**
   * Takes the batch apart, then settles and releases its jobs one by one. A refusal by the database is left
   * to the settlements of the single jobs, which meet it, too.
   */
  async #takeApart(): Promise<void> {
    const { database, settler } = this.#parts;
    await settler.before(this.jobs, () => takeApart(database, this.lease));
    this.#isApart = true;
    for (const ended of [...this.#row(this.lease).ended(), ...this.#others]) settler.settle([ended]);
    settler.release(this.#released.splice(0));
  }

  /**
   * Settles the batch after all jobs have ended. Jobs that are not done are taken out, and settled one by
   * one.
   */
  async #finish(): Promise<void> {
    const { database, settler } = this.#parts;
    if (this.#others.length === 0) return settler.settleRow(this.#row(this.lease));
    if (this.#attempts.length === 0) return this.apart();
    this.#parting = Promise.resolve();
    const ids = this.#others.map(({ settlement }) => settlement.id);
    let position: number | null = null;
    await settler.before(this.jobs, async () => {
      position = await takeOut(database, this.lease, ids);
    });
    if (position === null) return this.#takeApart();
    settler.settleRow(this.#row({ position, token: this.lease.token }));
    for (const ended of this.#others) settler.settle([ended]);
  }

  #row(lease: RowLease): DoneRow {
    return new DoneAttempts(lease, { attempts: this.#attempts, busyMs: this.#busyMs, data: this.#data });
  }
}

const fates = { lease_lost: 'lost', cancelled: 'cancelled', node_silent: 'back' } as const;

class DoneAttempts implements DoneRow {
  readonly position: number;
  readonly token: string;
  readonly busyMs: readonly number[];
  readonly data: readonly (string | null)[];
  readonly #attempts: readonly Attempt[];

  constructor(
    { position, token }: RowLease,
    done: {
      readonly attempts: readonly Attempt[];
      readonly busyMs: readonly number[];
      readonly data: readonly (string | null)[];
    },
  ) {
    [this.position, this.token] = [position, token];
    [this.#attempts, this.busyMs, this.data] = [done.attempts, done.busyMs, done.data];
  }

  leases(): readonly Lease[] {
    return this.#attempts.map(({ lease }) => lease);
  }

  ended(): readonly Ended[] {
    return this.#attempts.map((attempt, index) =>
      doneEnded(attempt, this.busyMs[index] ?? 0, this.data[index] ?? null),
    );
  }

  settled(settled: Told): void {
    for (const [index, attempt] of this.#attempts.entries())
      attempt.settled(settled, this.busyMs[index] ?? 0);
  }
}

function doneEnded(attempt: Attempt, busyMs: number, data: string | null): Ended {
  const { id, token, task } = attempt.job;
  return {
    settlement: { id, token, outcome: 'done', delayMs: null, data, waitedMs: attempt.waitedMs },
    task,
    onSettled: (settled) => attempt.settled(settled === 'repeated' ? 'done' : settled, busyMs),
  };
}
