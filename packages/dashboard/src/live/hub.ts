import { randomBytes } from 'node:crypto';
import type { LiveEvent } from '../contract.ts';
import { Problem } from '../problem.ts';

/** Event streams of all connected clients, with recent events for those that reconnect. */
export interface Hub {
  /**
   * Opens a stream of events. `lastId`: the last event that the client has received. @throws {Problem} `busy`
   */
  readonly open: (lastId: string | null) => ReadableStream<Uint8Array>;
  readonly send: (event: LiveEvent) => void;
  readonly clients: () => number;
  /**
   * Registers the listener called when the first client connects (true) and the last one disconnects (false).
   */
  readonly onClients: (listener: (some: boolean) => void) => void;
  readonly close: () => void;
}

const clientsMax = 500;
/** Events that may be queued for a slow client. Beyond that its stream ends, and it has to reconnect. */
const behindMax = 100;
const keptMax = 200;
const keptMs = 120_000;
const heartbeatMs = 15_000;
/** Longest duration of a stream, in milliseconds. The client then reconnects and is authenticated again. */
const streamMs = 1_800_000;

interface Client {
  readonly push: (text: string) => void;
  readonly end: () => void;
}

interface SentEvent {
  readonly n: number;
  readonly atMs: number;
  readonly event: LiveEvent['event'];
  readonly text: string;
}

export function createHub(): Hub {
  // prefix of event ids; ids of another process or an earlier run are ignored
  const origin = randomBytes(6).toString('hex');
  const clients = new Set<Client>();
  const kept: SentEvent[] = [];
  const encoder = new TextEncoder();
  let n = 0;
  let heartbeat: NodeJS.Timeout | undefined;
  let closed = false;
  let listener = (_some: boolean): void => {};

  const missed = (lastId: string | null): readonly SentEvent[] => {
    const [from, had] = lastId?.split('-') ?? [];
    const since = Date.now() - keptMs;
    const known = from === origin && /^\d{1,15}$/.test(had ?? '') ? Number(had) : undefined;
    if (known !== undefined) {
      const later = kept.filter((one) => one.n > known && one.atMs >= since);
      if (later.some(({ event }) => event === 'snapshot')) return later;
    }
    return kept.filter(({ event, atMs }) => event === 'snapshot' && atMs >= since).slice(-1);
  };
  const gone = (client: Client): void => {
    if (!clients.delete(client) || clients.size > 0) return;
    clearInterval(heartbeat);
    listener(false);
  };
  const come = (client: Client): void => {
    clients.add(client);
    if (clients.size > 1) return;
    heartbeat = setInterval(() => {
      for (const one of clients) one.push(': \n\n');
    }, heartbeatMs).unref();
    listener(true);
  };
  return {
    open: (lastId) => {
      if (closed || clients.size >= clientsMax)
        throw new Problem('busy', 'too many look at once: try again later');
      let client: Client | undefined;
      return new ReadableStream<Uint8Array>(
        {
          start: (controller) => {
            client = clientOf(controller, { encoder, gone: () => client !== undefined && gone(client) });
            come(client); // before the first event: one that has missed too many is ended by it, and leaves
            client.push('retry: 2000\n\n');
            for (const { text } of missed(lastId)) client.push(text);
          },
          cancel: () => client?.end(),
        },
        { highWaterMark: behindMax },
      );
    },
    send: (event) => {
      n += 1;
      const text = `id: ${origin}-${n}\nevent: ${event.event}\ndata: ${JSON.stringify(event.data)}\n\n`;
      kept.push({ n, atMs: Date.now(), event: event.event, text });
      if (kept.length > keptMax) kept.shift();
      for (const client of clients) client.push(text);
    },
    clients: () => clients.size,
    onClients: (given) => {
      listener = given;
    },
    close: () => {
      closed = true;
      for (const client of clients) client.end();
    },
  };
}

function clientOf(
  controller: ReadableStreamDefaultController<Uint8Array>,
  { encoder, gone }: { readonly encoder: InstanceType<typeof TextEncoder>; readonly gone: () => void },
): Client {
  let ended = false;
  const end = (): void => {
    if (ended) return;
    ended = true;
    clearTimeout(limit);
    gone();
    try {
      controller.close();
    } catch {
      // the client has closed the stream
    }
  };
  const limit = setTimeout(end, streamMs).unref();
  return {
    end,
    push: (text) => {
      if (ended) return;
      if ((controller.desiredSize ?? 0) <= 0) return end();
      controller.enqueue(encoder.encode(text));
    },
  };
}
