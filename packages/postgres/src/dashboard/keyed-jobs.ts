import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/**
 * Makes requests with one idempotency key take turns until this transaction ends, then reports whether the key
 * has jobs of another request.
 * @param ids ids of this request's jobs, UUIDs of version 8 that begin with 60 bits of the key
 */
export async function keyIsTaken(target: Target, ids: readonly string[]): Promise<boolean> {
  return (await ask(target, 'key_taken($1::uuid[])', [ids])) === true;
}
