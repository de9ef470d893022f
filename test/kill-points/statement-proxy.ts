import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/**
 * Time at which the connection of the n-th statement ends: before the server gets it, before the client gets
 * the answer, or right after the answer.
 */
export type Moment = 'before' | 'sent' | 'after';

/**
 * Extent of the fault. `death`: all connections end, and no new one is accepted; `cut`: only this connection
 * ends.
 */
export type Fate = 'death' | 'cut';

export interface Point {
  /** Number of the statement, from 1. */
  readonly n: number;
  readonly moment: Moment;
  readonly fate: Fate;
  /** Counts only statements whose text contains this. */
  readonly of?: string;
}

/**
 * A proxy between one process and PostgreSQL that counts the statements of all its connections. To the
 * server, a process is dead if its connections have ended and it never comes back.
 */
export interface StatementProxy {
  readonly url: string;
  /** Returns the number of statements that have arrived. */
  readonly count: () => number;
  /** Returns the texts of these statements; the n-th is at n - 1, empty if it was parsed earlier. */
  readonly seen: () => readonly string[];
  /** Resolves when the point is reached; never, if it is not. */
  readonly reached: Promise<void>;
  readonly hasReached: () => boolean;
  /**
   * True if the server has ended every session too: the statements it received are done, or never will be.
   */
  readonly isOver: () => boolean;
  readonly close: () => Promise<void>;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
}

/** State shared by all connections of one proxy. */
interface Shared {
  readonly to: URL;
  readonly point: Point | undefined;
  readonly open: Set<Link>;
  readonly seen: string[];
  readonly reached: () => void;
  fated: boolean;
  dead: boolean;
}

export async function startStatementProxy(databaseUrl: string, point?: Point): Promise<StatementProxy> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const open = new Set<Link>();
  const seen: string[] = [];
  const to = new URL(databaseUrl);
  const shared: Shared = { to, point, open, seen, reached: resolve, fated: false, dead: false };
  const server = createServer((client) => relay(shared, client));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    count: () => seen.length,
    seen: () => seen,
    reached: promise,
    hasReached: () => shared.fated,
    isOver: () => open.size === 0,
    close: async () => {
      shared.dead = true;
      for (const { client, server: upstream } of open) {
        client.destroy();
        upstream.destroy();
      }
      server.close();
      await once(server, 'close');
    },
  };
}

/**
 * Ends a connection. The server learns of the end after the statements that it was sent, and may still run
 * them.
 */
function end({ client, server }: Link): void {
  client.destroySoon();
  server.end();
}

function strike(shared: Shared, link: Link): void {
  shared.fated = true;
  shared.dead = shared.point?.fate === 'death';
  for (const each of shared.dead ? shared.open : [link]) end(each);
  shared.reached();
}

function relay(shared: Shared, client: Socket): void {
  const { to, point, open, seen } = shared;
  if (shared.dead) {
    client.destroy();
    return;
  }
  const link = { client, server: connect(Number(to.port === '' ? 5432 : to.port), to.hostname) };
  open.add(link);
  for (const socket of [link.client, link.server]) {
    socket.on('error', () => {}); // expected: this proxy is for connections that break
    socket.on('close', () => end(link));
  }
  link.server.on('close', () => open.delete(link));
  let answerEnds = false;
  const outward = createFrames(true);
  const inward = createFrames(false);
  client.on('data', (data) => {
    for (const { bytes, statement } of outward(data)) {
      if (shared.dead) return;
      const counts = statement !== undefined && (point?.of === undefined || statement.includes(point.of));
      if (counts) seen.push(statement);
      const now = counts && !shared.fated && seen.length === point?.n;
      if (!now || point.moment !== 'before') link.server.write(bytes);
      if (now && point.moment !== 'after') {
        strike(shared, link);
        return;
      }
      answerEnds ||= now;
    }
  });
  link.server.on('data', (data) => {
    for (const { bytes, ready } of inward(data)) {
      if (client.writable) client.write(bytes);
      if (ready && answerEnds && !shared.fated) strike(shared, link);
    }
  });
}

/** Messages that are forwarded together: one message, or those of one statement up to its Sync. */
interface Frame {
  readonly bytes: Buffer;
  /** Text of the statement in these messages; empty if it was parsed earlier. */
  readonly statement?: string;
  /** True if the server is ready for the next statement. */
  readonly ready?: boolean;
}

const types = {
  query: 0x51,
  sync: 0x53,
  parse: 0x50,
  bind: 0x42,
  describe: 0x44,
  execute: 0x45,
  close: 0x43,
  ready: 0x5a,
};
const parts: ReadonlySet<number> = new Set([
  types.parse,
  types.bind,
  types.describe,
  types.execute,
  types.close,
]);

/**
 * Returns a function that cuts a stream of the protocol into frames. @param startup true if the first message
 * has no type
 */
function createFrames(startup: boolean): (data: Buffer) => readonly Frame[] {
  let rest: Buffer = Buffer.alloc(0);
  let first = startup;
  let group: Buffer[] = [];
  let text = '';
  return (data) => {
    rest = Buffer.concat([rest, data]);
    const frames: Frame[] = [];
    for (;;) {
      const head = first ? 0 : 1;
      if (rest.length < head + 4) break;
      const length = head + rest.readInt32BE(head);
      if (rest.length < length) break;
      const bytes = rest.subarray(0, length);
      rest = rest.subarray(length);
      const type = first ? 0 : (bytes[0] ?? 0);
      first = false;
      if (!startup) frames.push({ bytes, ready: type === types.ready });
      else if (type === types.query) frames.push({ bytes, statement: bytes.toString('utf8', 5, length - 1) });
      else if (parts.has(type)) {
        group.push(bytes);
        if (type === types.parse) text = bytes.toString('utf8', 5);
      } else if (type === types.sync) {
        frames.push({ bytes: Buffer.concat([...group, bytes]), statement: text });
        [group, text] = [[], ''];
      } else frames.push({ bytes });
    }
    return frames;
  };
}
