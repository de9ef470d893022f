import type { Enqueued, ErrorCode, FlowOptions, JobOptions } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Member } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';
import type { Producers } from './members.ts';

/** Parts of {@link enqueuedBefore}. */
export interface BeforeParts {
  readonly members: readonly Member[];
  readonly routes: Routes;
  readonly producers: Producers;
}

/**
 * Finds a job whose id the caller chose, if it was enqueued before its key moved: it may have ended in the old home. Asks
 * nobody about keys that never moved, or ids that nobody chose, and then returns undefined at once. An installation that
 * does not answer knows nothing.
 */
export function enqueuedBefore(
  { members, routes, producers }: BeforeParts,
  options: JobOptions | FlowOptions | undefined,
): Promise<Enqueued | undefined> | undefined {
  const { id, key } = options ?? {};
  if (typeof id !== 'string' || typeof key !== 'string' || routes.version(key) === 0) return undefined;
  const home = routes.home(key);
  const others = members.filter((member) => member !== home);
  return Promise.all(others.map((member) => isKnown(producers.plain(member), id).catch(() => false))).then(
    (known) => (known.includes(true) ? { id, outcome: 'repeated' } : undefined),
  );
}

/**
 * Finds those of some ids that any installation knows as jobs.
 * @throws {PgQueueError} `installation`: one does not answer, and may know some
 */
export async function knownAnywhere(
  { members, producers }: Pick<BeforeParts, 'members' | 'producers'>,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  // a job may come to one installation after that was asked, and leave another before: a second look finds it
  for (let look = 0; look < 2; look += 1) {
    const unknown = ids.filter((id) => !known.has(id));
    for (const member of members) {
      const asked = unknown.map((id) => member.run(() => isKnown(producers.plain(member), id)));
      for (const [index, found] of (await Promise.all(asked)).entries())
        if (found) known.add(unknown[index] ?? '');
    }
  }
  return known;
}

/** Ends of a wait for a result that tell that there is such a job. */
const knownBy: readonly ErrorCode[] = [
  'job_dead',
  'job_cancelled',
  'job_expired',
  'result_timeout',
  'result_lost',
  'key_missing',
  'undecodable',
];

async function isKnown(producer: ReturnType<Producers['plain']>, id: string): Promise<boolean> {
  try {
    await producer.result(id, { timeout: 0 });
    return true;
  } catch (error) {
    if (!(error instanceof PgQueueError)) throw error;
    if (error.code === 'not_found') return false;
    if (knownBy.includes(error.code) && error.data['status'] !== null) return true;
    throw error;
  }
}
