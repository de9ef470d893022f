import pg from 'pg';

/**
 * Reports how long each claim of this process takes, in milliseconds, from sending the statement to receiving
 * its rows. Patches `pg.Client`; returns a function that undoes that.
 */
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
        () => {}, // the error goes to the caller of the query
      );
    }
    return answer;
  }
  Reflect.set(pg.Client.prototype, 'query', query);
  return () => void Reflect.set(pg.Client.prototype, 'query', original);
}
