import { PgQueueError } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Route } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';
import { knownAnywhere } from './before.ts';

/** Parts of {@link learnMove}. */
export interface MovedParts {
  readonly members: readonly Member[];
  readonly routes: Routes;
}

/** Refusal of an enqueue by an installation that is not the home of a key. */
export interface Moved {
  /** Ids that the jobs, or the flow, would have had, in their order. */
  readonly ids: readonly string[];
  /** Holds the ids that an earlier try has written there, or anywhere if the outcome of that try is not known. */
  readonly known: ReadonlySet<string>;
}

/** Most refusals of one enqueue: a key moves once in a while, and not while it is enqueued. */
const refusalsMax = 8;

/**
 * Learns from a refusal where the key is, so that the enqueue can be repeated there under the same ids.
 * @param refusals number of refusals of this enqueue before
 * @throws the error, if it is no refusal, or one too many
 * @throws {PgQueueError} `installation`: an earlier try may have been accepted, and moved to one that does not answer
 */
export async function learnMove(
  error: unknown,
  { members, routes, member, refusals }: MovedParts & { readonly member: Member; readonly refusals: number },
): Promise<Moved> {
  if (!(error instanceof PgQueueError) || error.code !== 'moved' || refusals >= refusalsMax) throw error;
  const { key, installation, version, ids, known, repeated } = error.data as unknown as Refusal;
  routes.learn({ key, installation, version, movingFrom: null });
  // other keys of a batch may have moved, too; what this reading misses is refused once more
  await settled(routes.read(member));
  if (refusals > 0) await new Promise((resolve) => setTimeout(resolve, retryPauseMs(refusals, 1_000)));
  const elsewhere = repeated ? await knownAnywhere(members, ids) : [];
  return { ids, known: new Set([...known, ...elsewhere]) };
}

/** Data of a refusal. */
interface Refusal extends Omit<Route, 'movingFrom'> {
  readonly ids: readonly string[];
  readonly known: readonly string[];
  readonly repeated: boolean;
}

/** Waits for a reading; one that fails has told nothing new. */
async function settled(reading: Promise<void>): Promise<void> {
  try {
    await reading;
  } catch {
    // the next enqueue finds out
  }
}
