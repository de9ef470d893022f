import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

export type Direction = 'to-server' | 'to-client';

/**
 * A proxy between clients and PostgreSQL that makes the network bad: it drops replies, delays, holds data,
 * breaks connections.
 */
export interface CutProxy {
  readonly url: string;
  /**
   * Breaks the connection of the next statement whose text contains `part`, or matches it, in place of its
   * reply: the server has executed it.
   */
  readonly cutReplyOf: (part: string | RegExp) => void;
  /** Does the same for the next statement, whatever it is. */
  readonly cutNextReply: () => void;
  /** Returns the number of dropped replies. */
  readonly cuts: () => number;
  /** Delays each piece of data from now on by a drawn time; the pieces of one connection stay in order. */
  readonly delay: (drawMs: (() => number) | undefined) => void;
  /**
   * Holds all data in one direction from now on, as TCP would send it again later; undefined lets it pass.
   */
  readonly hold: (direction: Direction | undefined) => void;
  /** Ends every connection by RST. */
  readonly reset: () => void;
  readonly close: () => Promise<void>;
}

/** State shared by all connections of a proxy. */
interface Weather {
  wanted: string | RegExp | true | undefined;
  cuts: number;
  drawMs: (() => number) | undefined;
  held: Direction | undefined;
  readonly lanes: Set<Lane>;
  /** Prepared statements by name: their text is sent once. */
  readonly prepared: Map<string, string>;
}

/** One direction of one connection. */
interface Lane {
  readonly direction: Direction;
  readonly send: (data: Buffer) => void;
  /** Sends the held data. */
  readonly flush: () => void;
}

export async function startCutProxy(databaseUrl: string): Promise<CutProxy> {
  const to = new URL(databaseUrl);
  const open = new Set<Socket>();
  const weather: Weather = {
    wanted: undefined,
    cuts: 0,
    drawMs: undefined,
    held: undefined,
    lanes: new Set(),
    prepared: new Map(),
  };
  const server = createServer((client) => {
    const upstream = connect(Number(to.port === '' ? 5432 : to.port), to.hostname);
    const lanes = [openLane(weather, upstream, 'to-server'), openLane(weather, client, 'to-client')] as const;
    let cutting = false;
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => {}); // expected: this proxy is for connections that break
      socket.on('close', () => {
        open.delete(socket);
        for (const lane of lanes) weather.lanes.delete(lane);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (data) => {
      if (isWanted(weather, data)) {
        weather.wanted = undefined;
        cutting = true;
      }
      lanes[0].send(data);
    });
    upstream.on('data', (data) => {
      if (cutting) {
        weather.cuts += 1;
        client.destroy();
      } else lanes[1].send(data);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, ...controls(weather, open), close: () => end(server, open) };
}

/**
 * True if the data has the wanted statement. It may be prepared: then its text came earlier, perhaps on
 * another connection, and is known by its name.
 */
function isWanted({ wanted, prepared }: Weather, data: Buffer): boolean {
  const sent = data.includes('pgqueue_') ? data.toString('latin1') : '';
  for (const [, name = '', text = ''] of sent.matchAll(/(pgqueue_[0-9a-f]{32})\0([^\0]{20,})\0/g)) {
    prepared.set(name, text);
  }
  if (wanted === undefined || wanted === true) return wanted === true;
  const has = (text: string): boolean =>
    typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text);
  if (has(data.toString('latin1'))) return true;
  const names = [...sent.matchAll(/pgqueue_[0-9a-f]{32}/g)].map(([name]) => name);
  return names.some((name) => has(prepared.get(name) ?? ''));
}

async function end(server: ReturnType<typeof createServer>, open: ReadonlySet<Socket>): Promise<void> {
  for (const socket of open) socket.destroy();
  server.close();
  await once(server, 'close');
}

function controls(weather: Weather, open: ReadonlySet<Socket>): Omit<CutProxy, 'url' | 'close'> {
  return {
    cutReplyOf: (part) => {
      weather.wanted = part;
    },
    cutNextReply: () => {
      weather.wanted = true;
    },
    cuts: () => weather.cuts,
    delay: (drawMs) => {
      weather.drawMs = drawMs;
    },
    hold: (direction) => {
      weather.held = direction;
      for (const lane of weather.lanes) if (lane.direction !== direction) lane.flush();
    },
    reset: () => {
      for (const socket of open) socket.resetAndDestroy();
    },
  };
}

function openLane(weather: Weather, target: Socket, direction: Direction): Lane {
  /**
   * Pieces in the order in which they were sent, which timers of different lengths, and late ones, don't
   * keep.
   */
  const waiting: { readonly data: Buffer; readonly due: number }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const deliver = (): void => {
    clearTimeout(timer);
    if (weather.held === direction) return;
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const leftMs = next.due - performance.now();
      if (leftMs > 0) {
        timer = setTimeout(deliver, Math.ceil(leftMs));
        return;
      }
      waiting.shift();
      if (!target.destroyed) target.write(next.data);
    }
  };
  const lane: Lane = {
    direction,
    send: (data) => {
      waiting.push({ data, due: performance.now() + (weather.drawMs?.() ?? 0) });
      deliver();
    },
    flush: deliver,
  };
  weather.lanes.add(lane);
  return lane;
}
