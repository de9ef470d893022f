/**
 * A UUID of version 7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. Ids made later sort later, to the
 * millisecond, so inserts stay at one end of the index.
 * @param unixMs the time, in milliseconds
 * @param random 10 random bytes
 */
export function uuidV7(unixMs: number, random: Uint8Array): string {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(unixMs / 0x1_0000_0000));
  view.setUint32(2, unixMs % 0x1_0000_0000);
  bytes.set(random.subarray(0, 10), 6);
  view.setUint8(6, (view.getUint8(6) & 0x0f) | 0x70);
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Whether a text is a UUID in its usual form, of any version. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}
