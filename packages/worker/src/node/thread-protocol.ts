// Messages between a node's main thread and its heartbeat's thread, and the memory that they share.
import type { Heartbeat, HeartbeatInput, LoneOptions } from '@pgqueue/postgres/internal/heartbeat';

export interface ThreadData extends Omit<LoneOptions, 'onBroken'> {
  readonly node: string;
  readonly heartbeatMs: number;
  readonly blockedMs: number;
  readonly shared: SharedArrayBuffer;
}

export type BeatInput = Omit<HeartbeatInput, 'node' | 'pid'>;

/**
 * Messages to the thread. `know`: the incarnation to keep alive, while the main thread itself sends the
 * heartbeats. `stand-down`: this incarnation is over, and nothing is to be kept alive.
 */
export type ToThread =
  | { readonly kind: 'beat'; readonly number: number; readonly input: BeatInput }
  | { readonly kind: 'know'; readonly input: BeatInput }
  | { readonly kind: 'stand-down' };

export type FromThread =
  | { readonly kind: 'ready' }
  | { readonly kind: 'beaten'; readonly number: number; readonly answer: Heartbeat }
  | { readonly kind: 'failed'; readonly number: number; readonly error: SentError };

/** An error in transit: a clone of an error loses its code, by which failures are told apart. */
export interface SentError {
  readonly message: string;
  readonly code: string | undefined;
}

export function sentError(error: unknown): SentError {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return {
    message: error instanceof Error ? error.message : String(error),
    code: typeof code === 'string' ? code : undefined,
  };
}

export function receivedError({ message, code }: SentError): Error {
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

/**
 * Returns milliseconds of a clock that all threads of a process share; `performance.now()` begins anew in
 * each.
 */
export function sharedNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Returns the interval at which both threads write their stamps, in milliseconds. */
export function tickMsOf(blockedMs: number): number {
  return Math.max(10, Math.min(250, blockedMs / 4));
}

/**
 * Returns that interval for the heartbeat's thread while no handler runs. It is shorter than the gap that the
 * main thread takes for a frozen process.
 */
export function idleTickMsOf(blockedMs: number): number {
  return Math.max(10, Math.min(1_000, blockedMs * 0.4));
}

/** A job whose handler runs. */
export interface RunningUnit {
  readonly job: string;
  readonly task: string;
}

type Stamp = 'main' | 'thread' | 'beat';
const stamps: Readonly<Record<Stamp, number>> = { main: 0, thread: 1, beat: 2 };
const callAt = 64;
const idBytes = 64;
const taskAt = callAt + idBytes;
const taskBytes = 800;
const textAt = taskAt + taskBytes;
const textBytes = 8_192;

/**
 * Shared memory with stamps of time and the running jobs: facts that one thread must know of the other while
 * that one cannot answer. The stamps `main` and `thread` show that these threads are alive; `beat` is when
 * the last accepted heartbeat was sent.
 */
export class SharedMarks {
  readonly buffer: SharedArrayBuffer;
  readonly #stamps: BigInt64Array;
  readonly #lengths: Int32Array;
  readonly #call: Buffer;
  readonly #task: Buffer;
  readonly #text: Buffer;
  /** Task that was written last; mostly the next one is the same. */
  #calledTask = '';

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(textAt + textBytes)) {
    this.buffer = buffer;
    this.#stamps = new BigInt64Array(buffer, 0, 3);
    this.#lengths = new Int32Array(buffer, 24, 3);
    this.#call = Buffer.from(buffer, callAt, idBytes);
    this.#task = Buffer.from(buffer, taskAt, taskBytes);
    this.#text = Buffer.from(buffer, textAt, textBytes);
  }

  stamp(which: Stamp, atMs: number = sharedNowMs()): void {
    Atomics.store(this.#stamps, stamps[which], BigInt(Math.round(atMs * 1e6)));
  }

  /** Makes a stamp as if it had never been written. */
  unstamp(which: Stamp): void {
    Atomics.store(this.#stamps, stamps[which], 0n);
  }

  /** Returns the milliseconds since a stamp was written; Infinity: never. */
  ageMs(which: Stamp): number {
    const at = Atomics.load(this.#stamps, stamps[which]);
    return at === 0n ? Infinity : sharedNowMs() - Number(at) / 1e6;
  }

  /** Records that a handler is being called, and has not come to its first `await`. */
  calling(job: string, task: string): void {
    if (task !== this.#calledTask) {
      this.#calledTask = task;
      Atomics.store(this.#lengths, 2, this.#task.write(task));
    }
    Atomics.store(this.#lengths, 0, this.#call.write(job, 'latin1')); // ids are ASCII
  }

  called(): void {
    Atomics.store(this.#lengths, 0, 0);
  }

  /** The job whose handler is being called; if there is none, the jobs whose handlers run. */
  get running(): readonly RunningUnit[] {
    const called = this.#call.toString('latin1', 0, Atomics.load(this.#lengths, 0));
    if (called !== '')
      return [{ job: called, task: this.#task.toString('utf8', 0, Atomics.load(this.#lengths, 2)) }];
    const text = this.#text.toString('utf8', 0, Atomics.load(this.#lengths, 1));
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const [job = '', ...task] = line.split(' ');
        return { job, task: task.join(' ') };
      });
  }

  set running(jobs: readonly RunningUnit[]) {
    Atomics.store(this.#lengths, 1, 0);
    const text = jobs.map(({ job, task }) => `${job} ${task}`).join('\n');
    Atomics.store(this.#lengths, 1, this.#text.write(text));
  }
}
