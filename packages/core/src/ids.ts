/**
 * Makes a UUID of version 7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. Ids made later sort
 * later, to the millisecond, so inserts stay at one end of the index.
 * @param unixMs the time, in milliseconds
 * @param random 10 random bytes
 */
export function uuidV7(unixMs: number, random: Uint8Array): string {
  const high = Math.floor(unixMs / 0x1_0000);
  const time = high.toString(16).padStart(8, '0') + hex((unixMs >>> 8) & 0xff) + hex(unixMs & 0xff);
  const at = (index: number): number => random[index] ?? 0;
  const version = hex((at(0) & 0x0f) | 0x70) + hex(at(1));
  const variant = hex((at(2) & 0x3f) | 0x80) + hex(at(3));
  const rest = hex(at(4)) + hex(at(5)) + hex(at(6)) + hex(at(7)) + hex(at(8)) + hex(at(9));
  return `${time.slice(0, 8)}-${time.slice(8)}-${version}-${variant}-${rest}`;
}

const hexOf: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hex(byte: number): string {
  return hexOf[byte] ?? '';
}

/** Reports whether a text is a UUID in its usual form, of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}
