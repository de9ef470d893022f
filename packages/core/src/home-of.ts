import { PgQueueError } from './errors.ts';

/**
 * Returns the number of the installation that is the home of a key, by rendezvous hashing: each installation draws a
 * weight for the key, and the greatest wins. So with one more installation, only the keys that it wins move, one in N;
 * with one less, only its own. The order of the numbers does not matter. The function is fixed: another one would move
 * keys.
 * @param numbers of the active installations, at least one
 */
export function homeOf(key: string, numbers: readonly number[]): number {
  const hashed = hashOf(key);
  let home: number | undefined;
  let greatest = -1;
  for (const number of numbers) {
    // distinct for distinct numbers, as both functions are one to one
    const weight = mixed(hashed ^ mixed(number + 1));
    if (weight <= greatest) continue;
    home = number;
    greatest = weight;
  }
  if (home === undefined) throw new PgQueueError('configuration', 'there is no active installation');
  return home;
}

const encoder = new TextEncoder();

/** FNV-1a of the key's UTF-8. */
function hashOf(key: string): number {
  let hash = 0x81_1c_9d_c5;
  for (const byte of encoder.encode(key)) hash = Math.imul(hash ^ byte, 0x01_00_01_93);
  return hash;
}

/** Finalizer of MurmurHash3: each bit of the input changes half of the output's; one to one over 32 bits. */
function mixed(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85_eb_ca_6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2_b2_ae_35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
