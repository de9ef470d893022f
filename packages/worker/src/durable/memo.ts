import { PgQueueError } from '@pgqueue/core';
import { aText, isRecord, jobLimits, throwProblems, valueProblems } from '@pgqueue/core/internal';
import type { MemoEntry } from '../flow/node-port.ts';

/** Most entries of a job. */
const entriesMax = 100;
const aName = aText({ max: jobLimits.waitNameLengthMax });
/** Form of a checkpoint that has entries: `{"pgqueue": {"v": 1, "steps": {…}}, "data": …}`. */
const version = 1;

/** Calls that make entries, by kind. */
const calls: Readonly<Record<MemoEntry['kind'], string>> = {
  step: 'ctx.step',
  sleep: 'ctx.sleep',
  all: 'ctx.all',
  signal: 'ctx.waitForSignal',
};

/**
 * Everything that a job keeps for its next attempt: the entries of its steps and waits, by name, and the data of
 * `ctx.checkpoint`. Both are stored in the checkpoint of the job. Without entries, the data are stored alone.
 */
export class Memo {
  readonly #entries: Map<string, MemoEntry>;
  readonly #begun = new Set<string>();
  #data: string;
  #last: Promise<unknown> = Promise.resolve();
  /** The latest reading of the database's clock, in Unix milliseconds. */
  seenMs: number = -Infinity;

  /** @param stored the checkpoint of the job; null: none */
  constructor(stored: unknown) {
    const kept = keptIn(stored);
    this.#entries = new Map(Object.entries(kept.entries));
    this.#data = JSON.stringify(kept.data);
  }

  /** Data of `ctx.checkpoint`; null: none. */
  get data(): unknown {
    return JSON.parse(this.#data) as unknown;
  }

  /**
   * Begins a step or a wait. Returns its entry; undefined: it is new.
   * @throws {PgQueueError} `configuration`: its name is invalid, or was used before, in this attempt or for another
   * kind of call, or the job has 100 names
   */
  begin(name: string, kind: MemoEntry['kind']): MemoEntry | undefined {
    const call = `${calls[kind]}(${JSON.stringify(name)})`;
    throwProblems('configuration', calls[kind], valueProblems(aName, name, 'the name'));
    if (this.#begun.has(name))
      throw new PgQueueError('configuration', `${call}: this attempt has used this name before`);
    const entry = this.#entries.get(name);
    if (entry !== undefined && entry.kind !== kind) {
      throw new PgQueueError(
        'configuration',
        `${call}: an earlier attempt has used this name for ${calls[entry.kind]}`,
      );
    }
    if (entry === undefined && this.#entries.size >= entriesMax) {
      throw new PgQueueError(
        'configuration',
        `${call}: a job has at most ${entriesMax} steps and waits: do more in one step, or let a job wait for others`,
      );
    }
    this.#begun.add(name);
    return entry;
  }

  /** Returns an entry by its name. */
  entry(name: string): MemoEntry | undefined {
    return this.#entries.get(name);
  }

  /** Records an entry that is stored, or need not be stored by itself. */
  set(name: string, entry: MemoEntry): void {
    this.#entries.set(name, entry);
  }

  /** Records data that are stored. */
  keepData(text: string): void {
    this.#data = text;
  }

  /**
   * Returns the checkpoint to store, with one more entry, or with other data.
   * @throws {PgQueueError} `configuration`: it is too long
   */
  textWith(more: { readonly entry?: readonly [string, MemoEntry]; readonly data?: string }): string {
    const { entry, data = this.#data } = more;
    const entries = entry === undefined ? this.#entries : new Map(this.#entries).set(...entry);
    const text =
      entries.size === 0 && !isWrapped(JSON.parse(data))
        ? data
        : `{"pgqueue":${JSON.stringify({ v: version, steps: Object.fromEntries(entries) })},"data":${data}}`;
    const bytes = Buffer.byteLength(text);
    if (bytes <= jobLimits.payloadBytesMax) return text;
    throw new PgQueueError(
      'configuration',
      `the results of the steps of this job, with its checkpoint, have ${bytes} bytes of JSON, more than ${jobLimits.payloadBytesMax}: return less from ctx.step, such as a reference`,
    );
  }

  /** Calls `work` when earlier work has ended: a text that is stored later must have all entries. */
  inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

interface Wrapped {
  readonly pgqueue: { readonly v: number; readonly steps: Readonly<Record<string, MemoEntry>> };
  readonly data: unknown;
}

function keptIn(stored: unknown): {
  readonly entries: Readonly<Record<string, MemoEntry>>;
  readonly data: unknown;
} {
  if (!isWrapped(stored)) return { entries: {}, data: stored };
  return { entries: stored.pgqueue.steps, data: stored.data };
}

/** Returns until when the sleeps of a job last that keeps this checkpoint, in Unix milliseconds. */
export function sleepsUntilMs(stored: unknown): number {
  const ends = Object.values(keptIn(stored).entries).map((entry) =>
    entry.kind === 'sleep' ? entry.untilMs : -Infinity,
  );
  return Math.max(-Infinity, ...ends);
}

/** Reports whether a checkpoint has entries. */
function isWrapped(stored: unknown): stored is Wrapped {
  if (!isRecord(stored) || Object.keys(stored).toSorted().join() !== 'data,pgqueue') return false;
  const { pgqueue } = stored as Partial<Wrapped>;
  return (
    isRecord(pgqueue) &&
    pgqueue.v === version &&
    isRecord(pgqueue.steps) &&
    Object.values(pgqueue.steps).every(isEntry)
  );
}

function isEntry(entry: unknown): boolean {
  return isRecord(entry) && Object.hasOwn(calls, String((entry as Partial<MemoEntry>).kind));
}
