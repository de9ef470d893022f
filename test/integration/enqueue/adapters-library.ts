import type { Executor } from '@pgqueue/postgres';

/** One transaction of a library: how it enqueues, and how it writes to the table `invoice` in its own way. */
export interface LibraryTransaction {
  /** The library's own object. */
  readonly tx: unknown;
  readonly executor: Executor;
  readonly write: (note: string) => Promise<unknown>;
}

export interface Library {
  /** Commits what `work` resolves to, rolls back what it throws: all of it the library's own doing. */
  readonly transaction: <Result>(work: (tx: LibraryTransaction) => Promise<Result>) => Promise<Result>;
  readonly close: () => Promise<void>;
}

export interface NamedLibrary {
  readonly name: string;
  readonly open: (url: string) => Promise<Library>;
}
