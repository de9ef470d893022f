import type { Leading } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Installation } from '@pgqueue/postgres/internal';
import { readLeading } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import { createMember } from '../installations/member.ts';

/** Connections of the gates of one scheduler to the installations that they ask. */
export interface Connections {
  /**
   * Runs work with connections that stay open for the next. Rejects as soon as the signal aborts; the work then ends by the
   * time limit of its statements.
   * @throws what the work throws
   */
  readonly use: <Result>(
    signal: AbortSignal,
    work: (member: (name: string) => Member) => Promise<Result>,
  ) => Promise<Result>;
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
    use: (signal, work) =>
      heeding(signal, async () => {
        clearTimeout(timer);
        busy += 1;
        try {
          return await work(memberOf);
        } finally {
          busy -= 1;
          if (busy === 0) timer = setTimeout(closeAll, idleMs).unref();
        }
      }),
  };
}

/** Runs work, and rejects as soon as the signal aborts. */
async function heeding<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
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

/**
 * Returns the time of the database that a scheduler leads, in Unix milliseconds.
 * @throws {PgQueueError} `configuration`: it does not lead that
 */
export async function nowOfLeader(
  { database, run, installation }: Member,
  leading: Leading,
): Promise<number> {
  const { leads, nowMs } = await run(() => readLeading(database, leading));
  if (leads) return nowMs;
  throw new PgQueueError(
    'configuration',
    `this scheduler does not lead installation ${installation.name}: is self the name of another one?`,
  );
}

/** Problems of options that name installations of the list. `undefined`: the option is not given. */
export function namingProblems(
  installations: readonly Installation[],
  named: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  const names = installations.map(({ name }) => name);
  const unknown = Object.entries(named).filter(([, name]) => name !== undefined && !names.includes(name));
  return unknown.map(
    ([option]) => `${option} must be the name of an installation of the list: ${names.join(', ')}`,
  );
}
