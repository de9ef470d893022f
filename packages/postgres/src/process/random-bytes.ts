import { randomFillSync } from 'node:crypto';

/**
 * Creates a source of random bytes, `size` at a time. They are drawn for `count` calls at once: a call of
 * node:crypto for each takes many times as long. A result shares its memory with those of the `count` last
 * calls: use it before the next call.
 */
export function randomBytesOf(size: number, count: number): () => Buffer {
  const drawn = Buffer.alloc(size * count);
  let used = drawn.length;
  return () => {
    if (used === drawn.length) {
      randomFillSync(drawn);
      used = 0;
    }
    used += size;
    return drawn.subarray(used - size, used);
  };
}
