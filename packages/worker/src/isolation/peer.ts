import type { CrossingError } from './protocol.ts';
import { received, sentError } from './protocol.ts';

/** Messages between a node and the process of one attempt, both ways. */
type Message = Call | (Answer & { readonly n: number });

interface Call {
  readonly kind: 'call';
  /** Null: no answer is wanted. */
  readonly n: number | null;
  readonly name: string;
  readonly args: readonly unknown[];
}

type Answer =
  | { readonly kind: 'answer'; readonly value: unknown }
  | { readonly kind: 'failed'; readonly error: CrossingError };

export type Methods = Readonly<Record<string, (...args: never[]) => unknown>>;

export interface Peer {
  /**
   * Calls a method of the other side. Resolves to its answer.
   * @throws its error; {@link OverError}: there was no answer before the end
   */
  readonly call: (name: string, ...args: readonly unknown[]) => Promise<unknown>;
  /** Calls a method that gives no answer. */
  readonly tell: (name: string, ...args: readonly unknown[]) => void;
  readonly receive: (message: unknown) => void;
  /** Ends the exchange. */
  readonly close: () => void;
}

/** The attempt ended before a call was answered. */
export class OverError extends Error {
  override readonly name = 'OverError';
  override readonly message = 'the attempt is over';
}

/** @param post throws for values that cannot be copied to another process (a function, a socket) */
export function createPeer(post: (message: unknown) => void, methods: Methods): Peer {
  const asked = new Map<number, PromiseWithResolvers<unknown>>();
  let closed = false;
  let last = 0;

  const reply = (n: number | null, answer: Answer): void => {
    if (closed || n === null) return;
    try {
      post({ ...answer, n } satisfies Message);
    } catch (error) {
      post({ kind: 'failed', n, error: sentError(error) } satisfies Message);
    }
  };
  const serve = async ({ n, name, args }: Call): Promise<void> => {
    try {
      if (!Object.hasOwn(methods, name)) throw new Error(`there is no ${name}`);
      const value: unknown = await methods[name]?.(...(args as never[]));
      reply(n, { kind: 'answer', value });
    } catch (error) {
      reply(n, { kind: 'failed', error: sentError(error) });
    }
  };

  const call: Peer['call'] = async (name, ...args) => {
    if (closed) throw new OverError();
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
    tell: (name, ...args) => {
      if (closed) return;
      try {
        post({ kind: 'call', n: null, name, args } satisfies Message);
      } catch {
        // it can't be copied, or nobody is there
      }
    },
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
    close: () => {
      closed = true;
      for (const { reject } of asked.values()) reject(new OverError());
      asked.clear();
    },
  };
}
