// A disk that is full: a small file system under a server's write-ahead log or tables.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Base } from './machine.ts';

export interface Disk {
  /** Empty at first, of the servers' user. */
  readonly folder: string;
  /** Nothing more can be written. */
  readonly fill: () => void;
  /** There is room again. */
  readonly free: () => void;
}

const block = Buffer.alloc(64 * 1_024, 1);

export function createDisk(base: Base, name: string, bytes: number): Disk {
  const folder = base.mount(name, bytes);
  const filler = join(folder, '.filler');
  return {
    folder: base.make(join(name, 'used')),
    free: () => rmSync(filler, { force: true }),
    fill: () => {
      const file = openSync(filler, 'a');
      try {
        for (let size = block.length; size >= 1; size = Math.floor(size / 16))
          writeAll(file, block.subarray(0, size));
      } finally {
        closeSync(file);
      }
    },
  };
}

function writeAll(file: number, data: Buffer): void {
  try {
    while (writeSync(file, data) > 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
