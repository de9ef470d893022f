/** Payload of every job: its number, the time its enqueue began, and padding; 100 bytes of JSON in all. */
export interface Payload {
  readonly n: number;
  /** Microseconds since 1970. */
  readonly at: number;
  readonly pad: string;
}

/** One job to enqueue. `key` is its fairness key, where the work uses keys. */
export interface BenchJob {
  readonly payload: Payload;
  readonly key: string | undefined;
}

export const payloadBytes = 100;
/** Added to every job number, so that all numbers have the same number of digits. */
const offset = 1_000_000_000;
const bare = JSON.stringify({ n: offset, at: 1_700_000_000_000_000, pad: '' });
const pad = 'x'.repeat(payloadBytes - bare.length);

/** Microseconds since 1970, monotonic within a process and comparable between processes of one machine. */
export function nowMicros(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1_000);
}

export function payloadOf(n: number, at: number = nowMicros()): Payload {
  return { n: n + offset, at, pad };
}

export function numberOf({ n }: Payload): number {
  return n - offset;
}

/** A range of jobs. */
export interface Range {
  readonly from: number;
  readonly count: number;
  /** Number of keys; job n belongs to key n modulo `keys`. */
  readonly keys?: number | undefined;
  /** One key for all of them. */
  readonly key?: string | undefined;
}

/** The jobs `from` to `from + count - 1`. */
export function jobsOf({ from, count, keys, key }: Range): readonly BenchJob[] {
  const at = nowMicros();
  return Array.from({ length: count }, (_, index) => {
    const n = from + index;
    return { payload: payloadOf(n, at), key: keys === undefined ? key : keyOf(n, keys) };
  });
}

export function keyOf(n: number, keys: number): string {
  return `key-${n % keys}`;
}
