import { PgQueueError } from '@pgqueue/core';
import type { Installation } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import { createMember } from '../installations/member.ts';

/** Connections of the gates of one scheduler to the installations that they ask. */
export interface Connections {
  /** Runs work with connections that stay open for the next. @throws what the work throws */
  readonly use: <Result>(work: (member: (name: string) => Member) => Promise<Result>) => Promise<Result>;
  readonly names: readonly string[];
}

/**
 * Gates are values that nobody closes, and only a leader asks: connections are closed when no work has needed them for
 * this long, in milliseconds.
 */
const idleMs = 3_000;
const queryTimeoutMs = 2_000;

export function createConnections(installations: readonly Installation[]): Connections {
  const alone = installations.length === 1;
  const open = new Map<string, Member>();
  let busy = 0;
  let timer: NodeJS.Timeout | undefined;

  const memberOf = (name: string): Member => {
    const installation = installations.find((one) => one.name === name);
    if (installation === undefined)
      throw new PgQueueError('configuration', `there is no installation ${name}`);
    const member = open.get(name) ?? createMember(installation, { alone, queryTimeoutMs });
    open.set(name, member);
    return member;
  };
  const closeAll = (): void => {
    for (const member of open.values()) void member.close().catch(() => {});
    open.clear();
  };
  return {
    names: installations.map(({ name }) => name),
    use: async (work) => {
      clearTimeout(timer);
      busy += 1;
      try {
        return await work(memberOf);
      } finally {
        busy -= 1;
        if (busy === 0) timer = setTimeout(closeAll, idleMs).unref();
      }
    },
  };
}

/** Runs work, and rejects as soon as the signal aborts. The work ends by the time limit of its statements. */
export async function heeding<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    if (stop !== undefined) signal.removeEventListener('abort', stop);
  }
}

/** Error of a leader that asks in the name of an installation that it does not lead. */
export function notLeading(self: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `this scheduler does not lead installation ${self}: is self the name of another one?`,
  );
}
