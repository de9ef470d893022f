import { installationOf, PgQueueError } from '@pgqueue/core';
import { isUuid } from '@pgqueue/core/internal';
import type { ResultOptions } from '@pgqueue/producer';
import type { Member } from '../installations/member.ts';

/** Returns the installations in the order in which to look for an id: first the one that it names. */
export function lookUpOrder(members: readonly Member[], id: string): readonly Member[] {
  if (!isUuid(id)) return members.slice(0, 1); // which refuses it
  const named = installationOf(id);
  const first = members.filter(({ installation }) => installation.number === named);
  return [...first, ...members.filter((member) => !first.includes(member))];
}

/**
 * Calls the installations in turn until one knows the id: it may have moved, or been made without a number. Resolves to
 * the answer of that one. A job may come to one installation after that was asked, and leave another before: a second look
 * finds it.
 * @throws {PgQueueError} `not_found`: none knows it; `installation`: one that did not answer may know it
 */
export async function findIn<Result>(
  members: readonly Member[],
  ask: (member: Member) => Promise<Result>,
): Promise<Result> {
  const looks = members.length === 1 ? members : [...members, ...members];
  let missing: unknown;
  let silent: unknown;
  for (const [index, member] of looks.entries()) {
    if (index === members.length && silent !== undefined) break;
    try {
      return await member.run(() => ask(member));
    } catch (error) {
      if (!(error instanceof PgQueueError)) throw error;
      if (error.code === 'not_found') missing ??= error;
      else if (error.code === 'installation') silent ??= error;
      else throw error;
    }
  }
  throw silent ?? missing;
}

/** Resolves as `search`, but a wait that its caller has aborted rejects with the reason, not as an installation's failure. */
export async function untilAborted<Result>(
  { signal }: ResultOptions = {},
  search: Promise<Result>,
): Promise<Result> {
  try {
    return await search;
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}
