import { PgQueueError } from '@pgqueue/core';
import type { Member } from '../installations/member.ts';

/** Answer of one installation. */
export type Answer<Result> =
  | { readonly installation: string; readonly number: number; readonly ok: true; readonly value: Result }
  | { readonly installation: string; readonly number: number; readonly ok: false; readonly error: Error };

/** Asks all installations at once. One that fails keeps no other one from answering. */
export function askAll<Result>(
  members: readonly Member[],
  ask: (member: Member) => Promise<Result>,
): Promise<readonly Answer<Result>[]> {
  return Promise.all(
    members.map(async (member): Promise<Answer<Result>> => {
      const { name: installation, number } = member.installation;
      try {
        return { installation, number, ok: true, value: await member.run(() => ask(member)) };
      } catch (error) {
        return {
          installation,
          number,
          ok: false,
          error: error instanceof Error ? error : new Error(String(error)),
        };
      }
    }),
  );
}

/** Returns the values of those that answered. */
export function valuesOf<Result>(answers: readonly Answer<Result>[]): readonly Result[] {
  return answers.flatMap((answer) => (answer.ok ? [answer.value] : []));
}

/**
 * Returns the values of a change to all installations.
 * @throws {PgQueueError} the error itself, if all failed alike for a reason of the caller's; otherwise `installation`,
 * with those that were changed and those that were not
 */
export function changedAll<Result>(what: string, answers: readonly Answer<Result>[]): readonly Result[] {
  const failed = answers.flatMap((answer) => (answer.ok ? [] : [answer]));
  const [first] = failed;
  if (first === undefined) return valuesOf(answers);
  const { error } = first;
  if (failed.length === answers.length && error instanceof PgQueueError && error.code !== 'installation')
    throw error;
  const changed = answers.flatMap(({ ok, installation }) => (ok ? [installation] : []));
  const done = changed.length === 0 ? 'in no installation' : `in ${changed.join(', ')}`;
  const not = failed.map((answer) => answer.error.message).join('; ');
  throw new PgQueueError(
    'installation',
    `${what}: done ${done}, but not: ${not}. Repeat it: it changes nothing where it is done`,
    {
      data: {
        changed,
        failed: failed.map((answer) => ({
          installation: answer.installation,
          message: answer.error.message,
        })),
      },
      cause: error,
    },
  );
}
