/**
 * Makes a UUID of version 7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. Ids made later sort
 * later, to the millisecond, so inserts stay at one end of the index.
 * @param unixMs the time, in milliseconds
 * @param random 10 random bytes
 * @param installation number of an installation, 0 to 1023, which replaces the first ten bits after the variant;
 * null: they are random, too
 */
export function uuidV7(unixMs: number, random: Uint8Array, installation: number | null = null): string {
  const high = Math.floor(unixMs / 0x1_0000);
  const time = high.toString(16).padStart(8, '0') + hex((unixMs >>> 8) & 0xff) + hex(unixMs & 0xff);
  const at = (index: number): number => random[index] ?? 0;
  const version = hex((at(0) & 0x0f) | 0x70) + hex(at(1));
  const high6 = installation === null ? at(2) & 0x3f : installation >>> 4;
  const low4 = installation === null ? at(3) & 0xf0 : (installation & 0x0f) << 4;
  const variant = hex(high6 | 0x80) + hex(low4 | (at(3) & 0x0f));
  const rest = hex(at(4)) + hex(at(5)) + hex(at(6)) + hex(at(7)) + hex(at(8)) + hex(at(9));
  return `${time.slice(0, 8)}-${time.slice(8)}-${version}-${variant}-${rest}`;
}

const hexOf: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hex(byte: number): string {
  return hexOf[byte] ?? '';
}

/**
 * Returns the number of the installation that an id names, 0 to 1023: the ten bits after the variant. They are random
 * in an id that was made without a number, and a key may have moved since: so an id says where to look first.
 */
export function installationOf(id: string): number {
  return ((Number.parseInt(id.slice(19, 21), 16) & 0x3f) << 4) | Number.parseInt(id.slice(21, 22), 16);
}

/** Reports whether a text is a UUID in its usual form, of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}
