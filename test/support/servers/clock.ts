// Wrong clocks: of a server, while it runs, and of Node processes.
import { readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Base } from './machine.ts';

/** A wall clock that a test sets. Monotonic clocks are not changed. */
export interface Clock {
  /** Environment variables that put a process under this clock. */
  readonly env: Readonly<{ [variable: string]: string }>;
  /** Sets the offset from the machine's clock, in seconds. */
  readonly set: (offsetSeconds: number) => void;
}

export function createClock(base: Base, name: string): Clock {
  const file = join(base.make('clocks'), name);
  const set = (offsetSeconds: number): void => {
    writeFileSync(`${file}.new`, `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}s\n`, { mode: 0o644 });
    renameSync(`${file}.new`, file); // a rename, so that nobody reads half of the file
  };
  set(0);
  return { set, env: { ...wrong(), FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1' } };
}

/** Returns the environment of a process whose clock is always wrong by `offsetSeconds`. */
export function wrongClock(offsetSeconds: number): Readonly<{ [variable: string]: string }> {
  return { ...wrong(), FAKETIME: `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}s` };
}

function wrong(): Readonly<{ [variable: string]: string }> {
  return { LD_PRELOAD: library(), FAKETIME_DONT_FAKE_MONOTONIC: '1', FAKETIME_DONT_RESET: '1' };
}

function library(): string {
  const folders = readdirSync('/usr/lib', { withFileTypes: true }).filter((entry) =>
    entry.name.endsWith('-linux-gnu'),
  );
  const folder = folders.find(({ name }) => readdirSync(join('/usr/lib', name)).includes('faketime'));
  if (folder === undefined) throw new Error('libfaketime is not installed');
  return join('/usr/lib', folder.name, 'faketime', 'libfaketime.so.1');
}
