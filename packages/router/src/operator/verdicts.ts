import { PgQueueError } from '@pgqueue/core';
import { isUuid } from '@pgqueue/core/internal';
import type { Operator, Verdicts } from '@pgqueue/postgres';
import type { Member } from '../installations/member.ts';
import { lookUpOrder } from '../producer/find.ts';

/** Asks one installation about jobs. */
export type Ask<Verdict extends string> = (
  operator: Operator,
  ids: readonly string[],
) => Promise<Verdicts<Verdict>>;

/**
 * Asks the installation that each id names, and then all others about the ids that it does not know: a job may have
 * moved, or been made without a number. Then it asks all once more about those that nobody knows. Resolves to a verdict for
 * each id, in the given order.
 * @throws {PgQueueError} `installation`: one that did not answer may know an id that no other one knows; the others have
 * done their part
 */
export async function verdictsOf<Verdict extends string>(
  {
    members,
    operatorOf,
  }: { readonly members: readonly Member[]; readonly operatorOf: (member: Member) => Operator },
  given: readonly string[],
  ask: Ask<Verdict>,
): Promise<Verdicts<Verdict>> {
  const [only] = members;
  // what is no list of ids is refused there, before any I/O
  const strange = !Array.isArray(given) || given.some((id) => typeof id !== 'string' || !isUuid(id));
  if (only !== undefined && (members.length === 1 || strange))
    return only.run(() => ask(operatorOf(only), given));
  const ids = given.map((id) => id.toLowerCase());
  const verdicts = new Map<string, Verdicts<Verdict>[number]>();
  const failures: unknown[] = [];
  const put = async (member: Member, some: readonly string[]): Promise<void> => {
    if (some.length === 0) return;
    try {
      const answers = await member.run(() => ask(operatorOf(member), some));
      for (const answer of answers) {
        if (answer.status !== null || !verdicts.has(answer.id)) verdicts.set(answer.id, answer);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  const asked = new Map(ids.map((id) => [id, lookUpOrder(members, id)[0]]));
  const askedOf = (member: Member, some: Iterable<string>, first: boolean): readonly string[] =>
    [...some].filter((id) => (asked.get(id) === member) === first);
  await Promise.all(members.map((member) => put(member, askedOf(member, asked.keys(), true))));
  const found = (id: string): boolean => verdicts.has(id) && verdicts.get(id)?.status !== null;
  const left = (): readonly string[] => [...asked.keys()].filter((id) => !found(id));
  const others = left();
  await Promise.all(members.map((member) => put(member, askedOf(member, others, false))));
  // a job may come to one installation after that was asked, and leave another before
  const missed = left();
  if (failures.length === 0) await Promise.all(members.map((member) => put(member, missed)));
  if (failures.length > 0 && !ids.every(found)) throw failures[0];
  return ids.map((id) => {
    const verdict = verdicts.get(id);
    if (verdict !== undefined) return verdict;
    throw new PgQueueError('invariant', `no verdict on job ${id}`);
  });
}
