import { createHash } from 'node:crypto';
import { Problem } from '../problem.ts';
import { apiLimits } from './schemas.ts';

/** A request with an idempotency key. */
export interface KeyedRequest {
  readonly user: string;
  readonly key: string;
  readonly body: string;
}

/**
 * Returns the id of the job at an index of the request: a UUID of version 8, made of 60 bits of user and key, and 62
 * bits of body and index. So a repeated request names the same jobs, and all jobs of a key are in one range of ids.
 */
export function requestIds({ user, key, body }: KeyedRequest): (index: number) => string {
  const own = digest([user, key]);
  const content = digest([user, key, body]);
  const head = `${own.slice(0, 8)}-${own.slice(8, 12)}-8${own.slice(12, 15)}`;
  return (index) => withVariant(head, digest([content, String(index)]));
}

/** Completes an id by 62 bits of a digest, behind the two bits that say how a UUID is laid out. */
function withVariant(head: string, hex: string): string {
  const first = (Number.parseInt(hex[0] ?? '0', 16) & 0x3) | 0x8;
  return `${head}-${first.toString(16)}${hex.slice(1, 4)}-${hex.slice(4, 16)}`;
}

/** Returns a digest, in hex, from which the parts can't be read: JSON tells where one ends. */
function digest(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Reads the header Idempotency-Key. @throws {Problem} `bad_request` */
export function idempotencyKeyOf(headers: Headers): string | undefined {
  const key = headers.get('idempotency-key');
  if (key === null) return undefined;
  if (key.length >= 1 && key.length <= apiLimits.keyLengthMax) return key;
  throw new Problem('bad_request', `Idempotency-Key must have 1 to ${apiLimits.keyLengthMax} characters`);
}

export function keyReused(): Problem {
  return new Problem(
    'idempotency_key',
    'this Idempotency-Key was used for a request with another body: a new request needs a new key',
  );
}
