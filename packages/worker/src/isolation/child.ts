/**
 * Main module of the processes that run isolated handlers, started by the pool of a worker. A bundler needs
 * this file as an entry of its own.
 * @module
 */
import { Worker } from 'node:worker_threads';
import { PgQueueError } from '@pgqueue/core';
import { isTaskHandler, loggedError } from '@pgqueue/core/internal';
import type { Handler } from '@pgqueue/core';
import { concealed } from '../codec/concealed.ts';
import { childContext } from './child-context.ts';
import type { Methods, Peer } from './peer.ts';
import { createPeer } from './peer.ts';
import type { ChildEnding, ChildInput } from './protocol.ts';
import { encodeReturned, encodeThrown } from './protocol.ts';

/** Runs one attempt. Resolves when the node has received its ending. */
export async function runAttempt(input: ChildInput): Promise<void> {
  dieWithParent();
  conceals = input.conceals;
  const line = openLine();
  const { context, methods } = childContext(input, () => line.peer);
  line.listen(methods);
  try {
    await line.peer.call('began', process.pid);
    await line.peer.call('ended', await endingOf(input, context));
  } finally {
    line.close();
  }
}

async function endingOf(
  { module, payload, job, needs }: ChildInput,
  context: ReturnType<typeof childContext>['context'],
): Promise<ChildEnding> {
  const adding = { key: job.key, needs: needs.names };
  try {
    const handler = await load(module);
    return await encodeReturned(await handler(payload, context), adding);
  } catch (error) {
    return encodeThrown(error, adding);
  }
}

async function load(module: string): Promise<Handler<unknown, unknown>> {
  const { handler, default: standard } = (await import(module)) as Readonly<Record<string, unknown>>;
  const found = handler ?? standard;
  const own: unknown = isTaskHandler(found) ? found.handler : found;
  if (typeof own === 'function') return own as Handler<unknown, unknown>;
  throw new PgQueueError('configuration', `${module} exports no function "handler"`);
}

interface ParentChannel {
  readonly peer: Peer;
  readonly listen: (methods: Methods) => void;
  readonly close: () => void;
}

/** Opens the channel of a process, which serves its attempts one after another. */
function openLine(): ParentChannel {
  let current: Peer | undefined;
  const receive = (message: unknown): void => {
    // The pool's own messages use the same channel.
    if (typeof message === 'object' && message !== null && 'pgqueue' in message)
      current?.receive(message.pgqueue);
  };
  const post = (message: unknown): void => {
    process.send?.({ pgqueue: message });
  };
  return {
    get peer() {
      if (current === undefined) throw new Error('nobody listens yet');
      return current;
    },
    listen: (methods) => {
      current = createPeer(post, methods);
      process.on('message', receive);
    },
    close: () => {
      current?.close(new Error('the attempt is over'));
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
/** Keeps the texts of errors out of what is written. */
let conceals = false;

/**
 * Ends the process when its parent is gone. A handler that blocks the event loop would otherwise outlive a
 * killed node, so a thread watches the parent's process id.
 */
function dieWithParent(): void {
  if (watched) return;
  watched = true;
  process.once('disconnect', () => process.exit(1));
  process.on('uncaughtException', onUncaught);
  const watch = `const { workerData: parent } = require('node:worker_threads');
    setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 1000);`;
  const limits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 4 };
  // Read the id here: the thread may start after the parent has gone.
  const workerData = process.ppid;
  new Worker(watch, { eval: true, execArgv: [], resourceLimits: limits, stdout: true, workerData }).unref();
}
