import { MessageChannel } from 'node:worker_threads';
import type { AbortReason, IsolatedHandler, JobContext } from '@pgqueue/core';
import { cancelled, giveUp, retryAfter, snooze, within } from '@pgqueue/core';
import pLimit from 'p-limit';
import { createAlarm } from '../alarm.ts';
import { AbortedError } from '../attempt.ts';
import type { Ending } from '../ending.ts';
import type { Peer } from './peer.ts';
import { createPeer } from './peer.ts';
import type { ChildPool } from './pool.ts';
import { openPool } from './pool.ts';
import { nodeMethods } from './node-methods.ts';
import type { ChildEnding } from './words.ts';
import { decode } from './words.ts';

/** Runs isolated handlers of one node. */
export interface Isolation {
  /** Never throws. Resolves when the handler has ended, or what it ran in. */
  readonly run: (handler: IsolatedHandler, payload: unknown, context: JobContext) => Promise<Ending>;
  /** Ends all threads and processes. */
  readonly close: () => Promise<void>;
}

/** How long a handler may take to end by itself after its signal aborted. */
const graceMs = 750;
const closeMs = 3_000;
/** How long the error of a thread that ended may be behind its end. */
const wordsMs = 300;

export function createIsolation(): Isolation {
  const pools = new Map<IsolatedHandler, Isolated>();
  let closed = false;

  const of = (handler: IsolatedHandler): Isolated => {
    const known = pools.get(handler);
    if (known !== undefined) return known;
    const pool = openPool(handler.options);
    const limit = pLimit(handler.options.concurrency ?? Infinity);
    const isolated: Isolated = { pool, run: (attempt) => limit(runIn, pool, attempt) };
    pools.set(handler, isolated);
    return isolated;
  };

  return {
    run: (handler, payload, context) => {
      if (closed) return Promise.resolve({ kind: 'threw', error: new AbortedError('shutdown') });
      return of(handler).run({ module: handler.module, payload, context });
    },
    close: async () => {
      closed = true;
      await within(closeMs, Promise.all([...pools.values()].map(({ pool }) => pool.close())));
    },
  };
}

interface Isolated {
  readonly pool: ChildPool;
  readonly run: (attempt: AttemptInput) => Promise<Ending>;
}

interface AttemptInput {
  readonly module: string;
  readonly payload: unknown;
  readonly context: JobContext;
}

/** One attempt: aborts it in two steps, first its signal, then its thread or process. */
async function runIn(pool: ChildPool, { module, payload, context }: AttemptInput): Promise<Ending> {
  const { signal } = context;
  const killer = new AbortController();
  const alarm = createAlarm(() => killer.abort());
  let ending: ChildEnding | undefined;
  let gone: string | undefined;

  const line = openLine(pool, {
    methods: (peer) => ({
      ...nodeMethods(context, peer),
      began: (pid: number) => pool.began(line.token, pid),
      ended: (given: ChildEnding) => {
        ending = given;
      },
    }),
    lost: (why) => {
      gone = why;
      killer.abort();
    },
  });
  const abort = (): void => {
    line.peer.tell('abort', reasonOf(signal));
    alarm.set(graceMs);
  };
  if (signal.aborted) return { kind: 'threw', error: new AbortedError(reasonOf(signal)) };
  signal.addEventListener('abort', abort, { once: true });
  try {
    const input = { module, payload, job: context.job };
    await pool.run({ input, killed: killer.signal, ...line.transport });
  } catch (error) {
    if (ending === undefined && gone === undefined && isUncopied(error)) return { kind: 'threw', error };
    gone ??= pool.whyGone(line.token, error);
  } finally {
    alarm.clear();
    signal.removeEventListener('abort', abort);
    line.close();
  }
  if (ending !== undefined) return decode(ending, { retry: retryAfter, giveUp, snooze, cancelled });
  if (signal.aborted) return { kind: 'threw', error: new AbortedError(reasonOf(signal)) };
  return { kind: 'crashed', why: gone ?? 'what it ran in ended without a word' };
}

/** A payload that a schema has turned into something that can't cross the border. */
function isUncopied(error: unknown): boolean {
  return error instanceof Error && error.name === 'DataCloneError';
}

function reasonOf(signal: AbortSignal): AbortReason {
  return signal.reason instanceof AbortedError ? signal.reason.code : 'shutdown';
}

interface LineParts {
  readonly methods: (peer: () => Peer) => Parameters<typeof createPeer>[1];
  /** The thread has closed its end. */
  readonly lost: (why: string) => void;
}

interface Line {
  readonly peer: Peer;
  readonly token: object;
  readonly transport: Pick<Parameters<ChildPool['run']>[0], 'port' | 'channel'>;
  readonly close: () => void;
}

function openLine(pool: ChildPool, { methods, lost }: LineParts): Line {
  let post: (message: unknown) => void = () => {};
  const peer: Peer = createPeer(
    (message) => post({ pgqueue: message }),
    methods(() => peer),
  );
  const receive = (message: unknown): void => {
    if (typeof message === 'object' && message !== null && 'pgqueue' in message)
      peer.receive(message.pgqueue);
  };
  const over = (): void => peer.close(new Error('the attempt is over'));
  if (pool.in === 'process') {
    const channel = {
      postMessage: receive,
      onMessage: (send: (message: unknown) => void) => {
        post = send;
      },
    };
    return { peer, token: {}, transport: { channel }, close: over };
  }
  const { port1, port2 } = new MessageChannel();
  // its end may be heard before the error that it ended with, which says more
  const silence = createAlarm(() => lost('its thread ended by process.exit()'));
  let ended = false;
  port1.on('message', receive);
  port1.once('close', () => {
    if (!ended) silence.set(wordsMs);
  });
  post = (message) => port1.postMessage(message);
  const close = (): void => {
    ended = true;
    silence.clear();
    over();
    port1.close();
  };
  return { peer, token: {}, transport: { port: port2 }, close };
}
