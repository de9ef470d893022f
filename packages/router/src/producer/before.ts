import { isUuid, within } from '@pgqueue/core/internal';
import type { IdOf } from '@pgqueue/postgres/internal';
import { knownIds } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';

/** A job or a flow that is to be enqueued. */
export interface Given {
  /** The id that the caller chose; anything else: none. */
  readonly id: unknown;
  readonly home: Member;
}

/**
 * Longest wait for an installation that is not the home, in milliseconds: one that does not answer must not keep jobs
 * from the others.
 */
const answerMs = 2_000;
/** Most ids in one statement. */
const idsMax = 1_000;
/** Installations with a look that is not answered in time: others don't wait for them. */
const silent = new WeakSet<Member>();

/**
 * Finds the installations, other than the home of each, that know ids which the caller chose: their key had its home there
 * before it moved, or before the list of installations changed. Asks nobody if there are no such ids. An installation that
 * does not answer knows nothing.
 * @returns by ids, in lower case
 */
export async function knownElsewhere(
  members: readonly Member[],
  of: IdOf,
  given: readonly Given[],
): Promise<ReadonlyMap<string, Member>> {
  const known = new Map<string, Member>();
  const chosen = given.flatMap(({ id, home }) =>
    typeof id === 'string' && isUuid(id) ? [{ id: id.toLowerCase(), home }] : [],
  );
  const look = async (member: Member): Promise<void> => {
    const ids = chosen.flatMap(({ id, home }) => (home === member ? [] : [id]));
    for (let first = 0; first < ids.length && !silent.has(member); first += idsMax)
      for (const id of await patiently(member, of, ids.slice(first, first + idsMax))) known.set(id, member);
  };
  if (chosen.length > 0) await Promise.all(members.map(look));
  return known;
}

/** Returns nothing of one that fails, or takes too long. */
async function patiently(member: Member, of: IdOf, ids: readonly string[]): Promise<readonly string[]> {
  const asking = member.run(() => knownIds(member.database, of, ids)).catch(() => []);
  if (await within(answerMs, asking)) return asking;
  silent.add(member);
  void asking.then(() => silent.delete(member));
  return [];
}

/**
 * Finds those of some ids that any installation knows as jobs.
 * @throws {PgQueueError} `installation`: one does not answer, and may know some
 */
export async function knownAnywhere(
  members: readonly Member[],
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  // a job may come to one installation after that was asked, and leave another before: a second look finds it
  for (let look = 0; look < 2; look += 1)
    for (const member of members)
      for (const id of await member.run(() => knownIds(member.database, 'job', ids))) known.add(id);
  return known;
}
