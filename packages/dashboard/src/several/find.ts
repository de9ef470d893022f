import { installationOf } from '@pgqueue/core';
import { isUuid } from '@pgqueue/core/internal';
import { readFlowNames, readSummary } from '@pgqueue/postgres/internal/dashboard';
import type { Found, Role } from '../contract.ts';
import { Problem } from '../problem.ts';
import type { Member } from './member.ts';
import { inTime } from './read-all.ts';

/**
 * Finds the installation that has a job or a flow: first the one that the id names, then all others, as it may have
 * moved, or been made without a number.
 * @throws {Problem} `bad_request`: it is no id
 */
export async function findJob(members: readonly Member[], role: Role, given: string): Promise<Found> {
  if (!isUuid(given)) throw new Problem('bad_request', 'the id of a job or a flow is a UUID');
  const id = given.toLowerCase();
  const named = members.filter(({ installation }) => installation.number === installationOf(id));
  const unreachable: string[] = [];
  for (const some of [named, members.filter((member) => !named.includes(member))]) {
    const answers = await Promise.all(
      some.map(async (member): Promise<Found['found']> => {
        const { name } = member.installation;
        try {
          const kind = await inTime(kindIn(member, { role, id }));
          return kind === undefined ? null : { installation: name, kind };
        } catch {
          unreachable.push(name);
          return null;
        }
      }),
    );
    const found = answers.find((answer) => answer !== null);
    if (found !== undefined) return { found, unreachable };
  }
  return { found: null, unreachable: unreachable.toSorted() };
}

async function kindIn(
  { site: { office } }: Member,
  { role, id }: { readonly role: Role; readonly id: string },
): Promise<'job' | 'flow' | undefined> {
  await office.ready();
  const { database } = office.deskOf(role);
  if ((await readSummary(database, id)) !== undefined) return 'job';
  return (await readFlowNames(database, id)) === undefined ? undefined : 'flow';
}
