import { encrypted } from '@pgqueue/postgres';
import type { EncryptedOptions } from '@pgqueue/postgres';

const keyOf = (id: string): { readonly id: string; readonly key: Buffer } => ({
  id,
  key: Buffer.alloc(32, id),
});

/** A codec with keys of these ids; the same id is the same key everywhere. */
export function codecOf(ids: readonly string[], options: Partial<EncryptedOptions> = {}) {
  return encrypted({ keys: ids.map(keyOf), plain: 'refuse', ...options });
}
