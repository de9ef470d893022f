import pg from 'pg';

/**
 * Tells how long each claim of this process takes, in milliseconds, seen from where it is called: its statements go through pools.
 * Returns what ends that.
 */
export function timeClaims(told: (ms: number) => void): () => void {
  const original = Reflect.get(pg.Pool.prototype, 'query') as (...args: unknown[]) => unknown;
  function query(this: pg.Pool, ...args: unknown[]): unknown {
    const [first] = args;
    const text = typeof first === 'string' ? first : (first as { readonly text?: string } | undefined)?.text;
    const began = performance.now();
    const answer = original.apply(this, args);
    if (text !== undefined && /\bclaim/.test(text)) {
      void Promise.resolve(answer).then(
        () => told(performance.now() - began),
        () => {}, // its caller hears of it
      );
    }
    return answer;
  }
  Reflect.set(pg.Pool.prototype, 'query', query);
  return () => void Reflect.set(pg.Pool.prototype, 'query', original);
}
