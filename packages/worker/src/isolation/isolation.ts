import type { AbortReason, IsolatedHandler, JobContext } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import pLimit from 'p-limit';
import type { Rejections } from '../attempt/unhandled-rejections.ts';
import { Alarm } from '../lease/alarm.ts';
import { AbortedError } from '../lease/timing.ts';
import { portOf } from '../flow/node-port.ts';
import type { Ending } from '../lease/ending.ts';
import type { NodeSettings } from '../node-options.ts';
import type { Methods, Peer } from './peer.ts';
import { createPeer } from './peer.ts';
import type { ChildPool } from './pool.ts';
import { openPool } from './pool.ts';
import { nodeMethods } from './node-methods.ts';
import type { ChildEnding, ChildInput, CrossingError } from './protocol.ts';
import { decode, received } from './protocol.ts';

/** Runs isolated handlers of one node. */
export interface Isolation {
  /**
   * Runs a handler in a child process. Never rejects. Resolves when the handler has ended, or its process.
   * `rejections` hears of unhandled ones until then; later ones are observed.
   */
  readonly run: (
    handler: IsolatedHandler,
    payload: unknown,
    context: JobContext,
    rejections: Rejections,
  ) => Promise<Ending>;
  /** Ends all child processes. */
  readonly close: () => Promise<void>;
}

/** Time for a handler to end by itself after its signal aborted; then its process is killed. */
const graceMs = 750;
const closeMs = 3_000;

/**
 * Creates the processes of a node; starts none yet. With the `errors` of a codec, the texts of errors are not
 * written to stderr either.
 */
export function createIsolation(
  { codec, observe }: Pick<NodeSettings, 'codec' | 'observe'>,
  floatingRejections: ChildInput['floatingRejections'] = 'fail',
): Isolation {
  const conceals = codec?.errors === true;
  const late = (job: string, task: string, error: CrossingError): void =>
    observe({ type: 'job.floating', job, task, error: received(error), counted: false });
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
    run: (handler, payload, context, rejections) => {
      if (closed) return Promise.resolve({ kind: 'threw', error: new AbortedError('shutdown') });
      const { module } = handler;
      const { job } = context;
      const { needs } = portOf(context);
      const input = { module, payload, job, needs, conceals, floatingRejections };
      return of(handler).run({ input, context, rejections, late });
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
  readonly input: ChildInput;
  readonly context: JobContext;
  readonly rejections: Rejections;
  /** Called for a rejection of a job whose attempt in this process is over. */
  readonly late: (job: string, task: string, error: CrossingError) => void;
}

/** Runs one attempt. An abort takes two steps: first the handler's signal, then its process. */
async function runIn(pool: ChildPool, { input, context, rejections, late }: AttemptInput): Promise<Ending> {
  const { signal } = context;
  const killer = new AbortController();
  const alarm = new Alarm(() => killer.abort());
  let ending: ChildEnding | undefined;
  let gone: string | undefined;

  const line = openLine((peer) => ({
    ...nodeMethods(context, peer),
    began: (pid: number) => pool.began(line.token, pid),
    ended: (given: ChildEnding) => {
      ending = given;
    },
    rejected: (n: number, error: CrossingError) => rejections.rejected(n, received(error)),
    handled: (n: number) => rejections.handled(n),
    late,
  }));
  const abort = (): void => {
    line.peer.tell('abort', reasonOf(signal));
    alarm.set(graceMs);
  };
  if (signal.aborted) return { kind: 'threw', error: new AbortedError(reasonOf(signal)) };
  signal.addEventListener('abort', abort, { once: true });
  try {
    await pool.run({ attempt: line.token, input, killed: killer.signal, channel: line.channel });
  } catch (error) {
    if (ending === undefined && isUncopied(error)) return { kind: 'threw', error };
    gone = pool.whyGone(line.token, error);
  } finally {
    alarm.clear();
    signal.removeEventListener('abort', abort);
    line.close();
  }
  if (ending !== undefined) return decode(ending);
  if (signal.aborted) return { kind: 'threw', error: new AbortedError(reasonOf(signal)) };
  return { kind: 'crashed', why: gone ?? 'what it ran in ended without a word' };
}

/** Reports whether a payload cannot be copied to another process, as a schema may have transformed it. */
function isUncopied(error: unknown): boolean {
  return error instanceof Error && error.name === 'DataCloneError';
}

function reasonOf(signal: AbortSignal): AbortReason {
  return signal.reason instanceof AbortedError ? signal.reason.code : 'shutdown';
}

interface ChildChannel {
  readonly peer: Peer;
  readonly token: object;
  readonly channel: Parameters<ChildPool['run']>[0]['channel'];
  readonly close: () => void;
}

function openLine(methods: (peer: () => Peer) => Methods): ChildChannel {
  let post: (message: unknown) => void = () => {};
  const peer: Peer = createPeer(
    (message) => post({ pgqueue: message }),
    methods(() => peer),
  );
  const channel = {
    postMessage: (message: unknown): void => {
      if (typeof message === 'object' && message !== null && 'pgqueue' in message)
        peer.receive(message.pgqueue);
    },
    onMessage: (send: (message: unknown) => void): void => {
      post = send;
    },
  };
  return { peer, token: {}, channel, close: peer.close };
}
