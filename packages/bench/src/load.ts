/** What every job carries: its number, when its enqueue began, and padding, 100 bytes of JSON in all. */
export interface Payload {
  readonly n: number;
  /** Microseconds since 1970. */
  readonly at: number;
  readonly pad: string;
}

/** One job to enqueue. `key`: whose it is, where the work has keys. */
export interface BenchJob {
  readonly payload: Payload;
  readonly key: string | undefined;
}

export const payloadBytes = 100;
/** Numbers are written with this added, so that all take as many digits. */
const offset = 1_000_000_000;
const bare = JSON.stringify({ n: offset, at: 1_700_000_000_000_000, pad: '' });
const pad = 'x'.repeat(payloadBytes - bare.length);

/** Microseconds since 1970, monotonic within a process: what processes of one machine can compare. */
export function nowMicros(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1_000);
}

export function payloadOf(n: number, at: number = nowMicros()): Payload {
  return { n: n + offset, at, pad };
}

export function numberOf({ n }: Payload): number {
  return n - offset;
}

/** Some jobs. */
export interface Range {
  readonly from: number;
  readonly count: number;
  /** Job n belongs to key n modulo so many. */
  readonly keys?: number | undefined;
  /** The key of all of them. */
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
