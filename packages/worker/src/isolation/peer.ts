import type { ErrorData } from '@pgqueue/core';
import { errorData } from '@pgqueue/core/internal';
import { received } from './protocol.ts';

/** Messages between a node and the process of one attempt, both ways. */
type Message =
  | { readonly kind: 'call'; readonly n: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly kind: 'answer'; readonly n: number; readonly value: unknown }
  | { readonly kind: 'failed'; readonly n: number; readonly error: ErrorData };

export type Methods = Readonly<Record<string, (...args: never[]) => unknown>>;

export interface Peer {
  /**
   * Calls a method of the other side. Resolves to its answer; rejects with its error, or with the error given
   * to `close`.
   */
  readonly call: (name: string, ...args: readonly unknown[]) => Promise<unknown>;
  /** Calls a method without waiting for its answer. */
  readonly tell: (name: string, ...args: readonly unknown[]) => void;
  readonly receive: (message: unknown) => void;
  /** Ends the exchange: calls that still wait for an answer reject with `error`. */
  readonly close: (error: Error) => void;
}

/** @param post throws for values that cannot be copied to another process (a function, a socket) */
export function createPeer(post: (message: unknown) => void, methods: Methods): Peer {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let closed: Error | undefined;
  let last = 0;

  const reply = (n: number, message: Message): void => {
    if (closed !== undefined) return;
    try {
      post(message);
    } catch (error) {
      post({ kind: 'failed', n, error: errorData(error) } satisfies Message);
    }
  };
  const serve = async ({ n, name, args }: Message & { readonly kind: 'call' }): Promise<void> => {
    try {
      if (!Object.hasOwn(methods, name)) throw new Error(`there is no ${name}`);
      const value: unknown = await methods[name]?.(...(args as never[]));
      reply(n, { kind: 'answer', n, value });
    } catch (error) {
      reply(n, { kind: 'failed', n, error: errorData(error) });
    }
  };

  const call: Peer['call'] = async (name, ...args) => {
    if (closed !== undefined) throw closed;
    const n = (last += 1);
    const answer = Promise.withResolvers<unknown>();
    asked.set(n, answer);
    try {
      post({ kind: 'call', n, name, args } satisfies Message);
    } catch (error) {
      asked.delete(n);
      throw error;
    }
    return answer.promise;
  };

  return {
    call,
    tell: (name, ...args) => void call(name, ...args).catch(() => {}),
    receive: (message) => {
      const said = message as Message;
      if (said.kind === 'call') {
        void serve(said);
        return;
      }
      const answer = asked.get(said.n);
      asked.delete(said.n);
      if (said.kind === 'answer') answer?.resolve(said.value);
      else answer?.reject(received(said.error));
    },
    close: (error) => {
      closed = error;
      for (const { reject } of asked.values()) reject(error);
      asked.clear();
    },
  };
}
