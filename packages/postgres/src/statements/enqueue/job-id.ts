import { randomFillSync } from 'node:crypto';
import { uuidV7 } from '@pgqueue/core';

/**
 * Number of ids for which random bytes are drawn at once: a call for each takes five times as long as all else that
 * an id does.
 */
const idsDrawn = 256;
const idBytes = 10;
const drawn = Buffer.alloc(idsDrawn * idBytes);
let used = drawn.length;

/**
 * Makes the id of a job or a flow, a UUID v7.
 * @param installation number of the installation that the id names; null: all bits are random
 */
export function makeId(installation: number | null = null): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += idBytes;
  return uuidV7(Date.now(), drawn.subarray(used - idBytes, used), installation);
}
