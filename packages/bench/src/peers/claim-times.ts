import pg from 'pg';

/** Tells how long each claim of this process takes, in milliseconds, from its statement to its rows. Returns what ends that. */
export function timeClaims(told: (ms: number) => void): () => void {
  const original = Reflect.get(pg.Client.prototype, 'query') as (...args: unknown[]) => unknown;
  function query(this: pg.Client, ...args: unknown[]): unknown {
    const [first] = args;
    const text = typeof first === 'string' ? first : (first as { readonly text?: string } | undefined)?.text;
    const began = performance.now();
    const answer = original.apply(this, args);
    if (answer instanceof Promise && text !== undefined && /\bclaim_rows\(/.test(text)) {
      void answer.then(
        () => told(performance.now() - began),
        () => {}, // its caller hears of it
      );
    }
    return answer;
  }
  Reflect.set(pg.Client.prototype, 'query', query);
  return () => void Reflect.set(pg.Client.prototype, 'query', original);
}
