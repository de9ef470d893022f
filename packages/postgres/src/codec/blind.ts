import { createHmac } from 'node:crypto';
import { PgQueueError } from '@pgqueue/core';
import type { KeyBytes } from './keys.ts';
import { aKey, secretOf } from './keys.ts';

/**
 * Returns a text that stands for a value in an attribute, a key or a unique key, which are stored in the clear: equal
 * values give equal texts, and without the key nobody can tell the value, or try out values. HMAC-SHA256 of
 * `pgqueue-blind`, a line feed and the value, in UTF-8, as 43 characters of base64url. Use a key of its own, which is
 * never rotated.
 * @throws {PgQueueError} `configuration`
 */
export function blind(value: string, key: KeyBytes): string {
  const secret = secretOf(key);
  if (secret === undefined) throw new PgQueueError('configuration', `blind(value, key): key must be ${aKey}`);
  if (typeof value !== 'string')
    throw new PgQueueError('configuration', `blind(value, key): value must be a text, not ${typeof value}`);
  // starts unlike all else that is derived from a key: no value can be chosen that gives the key of a cipher
  return createHmac('sha256', secret).update(`pgqueue-blind\n${value}`, 'utf8').digest('base64url');
}
