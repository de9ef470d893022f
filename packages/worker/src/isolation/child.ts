/**
 * Main module of the processes that run isolated handlers, started by the pool of a worker.
 * @module
 */
import { Worker } from 'node:worker_threads';
import { PgQueueError } from '@pgqueue/core';
import { isHandlerFunction, isTaskHandler, loggedError } from '@pgqueue/core/internal';
import type { Handler } from '@pgqueue/core';
import type { Floating, Rejections } from '../attempt/unhandled-rejections.ts';
import { createFloating, rejectionsTold } from '../attempt/unhandled-rejections.ts';
import { concealed } from '../codec/concealed.ts';
import { childContext } from './child-context.ts';
import type { Methods, Peer } from './peer.ts';
import { createPeer } from './peer.ts';
import type { ChildEnding, ChildInput } from './protocol.ts';
import { encodeReturned, encodeThrown, sentError } from './protocol.ts';

/** Runs one attempt. Resolves when the node has received its ending. */
export async function runAttempt(input: ChildInput): Promise<void> {
  dieWithParent();
  conceals = input.conceals;
  const run = (floating ??= openFloating(input.floatingRejections)).inTurn();
  const line = openLine();
  const rejections = rejectionsOf(line, input.job);
  busy = true;
  const { context, methods } = childContext(input, () => line.peer);
  // The node calls parts of the attempt, such as the work of a transaction.
  line.listen(methods, (receive, message) => run(rejections, receive, message));
  try {
    await line.peer.call('began', process.pid);
    const call = async (handler: Handler<unknown, unknown>): Promise<unknown> => {
      const value: unknown = await run(rejections, handler, input.payload, context);
      if (rejections.floats()) await rejectionsTold();
      return value;
    };
    await line.peer.call('ended', await endingOf(input, call));
  } finally {
    busy = false;
    line.close();
  }
}

async function endingOf(
  { module, job, needs }: ChildInput,
  call: (handler: Handler<unknown, unknown>) => Promise<unknown>,
): Promise<ChildEnding> {
  const adding = { key: job.key, needs: needs.names };
  try {
    return await encodeReturned(await call(await load(module)), adding);
  } catch (error) {
    return encodeThrown(error, adding);
  }
}

/** Attributes rejections to the attempts of this process. */
let floating: Floating | undefined;

function openFloating(mode: ChildInput['floatingRejections']): Floating {
  const opened = createFloating(mode);
  opened.open();
  return opened;
}

/** Passes the unhandled rejections of an attempt on to its node, which gets numbers for promises. */
function rejectionsOf(
  line: ParentChannel,
  { id, task }: ChildInput['job'],
): Rejections & { readonly floats: () => boolean } {
  const numbers = new Map<unknown, number>();
  let last = 0;
  return {
    rejected: (promise, error) => {
      if (line.over) return afterwards.tell('late', id, task, sentError(error));
      numbers.set(promise, (last += 1));
      line.peer.tell('rejected', last, sentError(error));
    },
    handled: (promise) => {
      const n = numbers.get(promise);
      if (numbers.delete(promise)) line.peer.tell('handled', n);
    },
    floats: () => numbers.size > 0,
  };
}

async function load(module: string): Promise<Handler<unknown, unknown>> {
  const { handler, default: standard } = (await import(module)) as Readonly<Record<string, unknown>>;
  const found = handler ?? standard;
  const own: unknown = isTaskHandler(found) ? found.handler : found;
  if (isHandlerFunction(own)) return own as Handler<unknown, unknown>;
  throw new PgQueueError(
    'configuration',
    `${module} exports no function "handler"${typeof own === 'function' ? ', but a generator' : ''}`,
  );
}

interface ParentChannel {
  readonly peer: Peer;
  /** True when its attempt is over. */
  readonly over: boolean;
  /** @param within runs what the node calls */
  readonly listen: (methods: Methods, within: Within) => void;
  readonly close: () => void;
}

type Within = (receive: (message: unknown) => void, message: unknown) => void;

const post = (message: unknown): void => {
  process.send?.({ pgqueue: message });
};

/** Tells the node of what comes after the end of its attempt, also while the process is idle. */
const afterwards = createPeer(post, {});

/** Opens the channel of a process, which serves its attempts one after another. */
function openLine(): ParentChannel {
  let current: Peer | undefined;
  let over = false;
  let hear: ((message: unknown) => void) | undefined;
  const receive = (message: unknown): void => {
    // The pool's own messages use the same channel.
    if (typeof message === 'object' && message !== null && 'pgqueue' in message) hear?.(message.pgqueue);
  };
  return {
    get peer() {
      if (current === undefined) throw new Error('nobody listens yet');
      return current;
    },
    get over() {
      return over;
    },
    listen: (methods, within) => {
      const peer = (current = createPeer(post, methods));
      hear = (message) => within(peer.receive, message);
      process.on('message', receive);
    },
    close: () => {
      over = true;
      current?.close();
      process.off('message', receive);
    },
  };
}

/**
 * Ends the process after an uncaught error, as Node would. Node's own report would show everything that an
 * error carries, including rows that PostgreSQL quotes.
 */
function onUncaught(error: unknown): void {
  if (process.listenerCount('uncaughtException') > 1) return; // the handler's own listener decides
  const text = JSON.stringify(loggedError(conceals ? concealed(error) : error));
  process.stderr.write(
    `pgqueue: an isolated handler's process was ended by an error that nobody caught: ${text}\n`,
  );
  process.exit(1);
}

let watched = false;
/** An attempt runs. */
let busy = false;
/** Keeps the texts of errors out of what is written. */
let conceals = false;

/**
 * Ends the process when its parent is gone, and not by signals to all processes, such as Ctrl-C: the node
 * drains then, and its pool ends what is idle by SIGTERM, and what must not go on by SIGKILL. A handler that
 * blocks the event loop would otherwise outlive a killed node, so a thread watches the parent's process id.
 */
function dieWithParent(): void {
  if (watched) return;
  watched = true;
  process.once('disconnect', () => process.exit(1));
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => busy || process.exit());
  process.on('uncaughtException', onUncaught);
  const watch = `const { workerData: parent } = require('node:worker_threads');
    setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 1000);`;
  const limits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 4 };
  // Read the id here: the thread may start after the parent has gone.
  const workerData = process.ppid;
  new Worker(watch, { eval: true, execArgv: [], resourceLimits: limits, stdout: true, workerData }).unref();
}
