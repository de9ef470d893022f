import type { KeyObject } from 'node:crypto';
import { createSecretKey } from 'node:crypto';

/** A key: 32 random bytes, as such or in base64. */
export type KeyBytes = Uint8Array | string;

/** A key of {@link encrypted}, by an id that is stored with each value. */
export interface EncryptionKey {
  /** 1 to 100 characters, such as `2026-11`. Everybody who may read the tables can see it. */
  readonly id: string;
  readonly key: KeyBytes;
}

const keyBytes = 32;
/** 32 bytes in base64, or in its form for URLs. */
const aKeyText = /^[A-Za-z0-9+/_-]{43}=?$/;

/** Expected form of a key, in words. */
export const aKey: string = `${keyBytes} bytes, as a Buffer, a Uint8Array or base64`;

/** Returns a key for `node:crypto`; undefined: it has not the form of one. */
export function secretOf(key: unknown): KeyObject | undefined {
  const bytes = typeof key === 'string' ? ofText(key) : key;
  if (!(bytes instanceof Uint8Array) || bytes.byteLength !== keyBytes) return undefined;
  return createSecretKey(bytes);
}

function ofText(text: string): Uint8Array | undefined {
  return aKeyText.test(text) ? Buffer.from(text, 'base64') : undefined;
}
