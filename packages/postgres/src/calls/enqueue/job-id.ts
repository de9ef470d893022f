import { uuidV7 } from '@pgqueue/core';
import { randomBytesOf } from '../../process/random-bytes.ts';

const nextBytes = randomBytesOf(10, 256);

/**
 * Makes the id of a job or a flow, a UUID v7.
 * @param installation number of the installation that the id names; null: all bits are random
 */
export function makeId(installation: number | null = null): string {
  return uuidV7(Date.now(), nextBytes(), installation);
}
