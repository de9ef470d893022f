import type { Logger } from '@pgqueue/core';
import { loggedError, within } from '@pgqueue/core/internal';
import type { Status } from '@pgqueue/postgres';
import type { Count, Depths, InstallationNow, InstallationRow, Installations } from '../contract.ts';
import type { Office } from '../desk.ts';
import { ownVersion } from '../http/version.ts';
import { depthsOf, warningsOf, workersOf } from '../pages/wire.ts';
import { Problem, problemOf } from '../problem.ts';
import type { Member } from './member.ts';

/** Time in which an installation must answer, in milliseconds: the others wait for it. */
export const answerMs = 3_000;

/** Reads the state of all installations. One that does not answer keeps no other one from being shown. */
export async function readAll(
  members: readonly Member[],
  logger: Logger | undefined,
): Promise<Omit<Installations, 'actor'>> {
  const installations = await Promise.all(members.map((member) => rowOf(member, logger)));
  return {
    at: new Date().toISOString(),
    version: ownVersion(),
    installations,
    totals: totalsOf(installations.flatMap(({ now }) => now ?? [])),
  };
}

async function rowOf(
  { installation: { name, number, state = 'active' }, site }: Member,
  logger: Logger | undefined,
): Promise<InstallationRow> {
  const known = { installation: name, number, state };
  try {
    return { ...known, now: nowOf(await inTime(statusOf(site.office))), error: null };
  } catch (error) {
    const problem = problemOf(error);
    if (problem.code === 'internal')
      logger?.error({ error: loggedError(error), installation: name }, 'an installation can not be read');
    return { ...known, now: null, error: problem.message };
  }
}

/** Reads the status, shared with all other readers and limited to its share of the time. */
async function statusOf(office: Office): Promise<Status> {
  await office.ready();
  return office.status();
}

/** Awaits an answer. @throws {Problem} `timeout`, after three seconds */
export async function inTime<Value>(answer: Promise<Value>): Promise<Value> {
  if (await within(answerMs, answer)) return answer;
  throw new Problem('timeout', `it does not answer within ${answerMs / 1_000} s`);
}

function nowOf(status: Status): InstallationNow {
  return {
    leader: status.leader.leader,
    depths: depthsOf(status.totals),
    workers: workersOf(status),
    donePerSecond: status.totals.donePerSecond,
    warnings: warningsOf(status),
  };
}

function totalsOf(all: readonly InstallationNow[]): Installations['totals'] {
  const sum = (of: (now: InstallationNow) => number): number =>
    all.reduce((total, now) => total + of(now), 0);
  const count = (of: (depths: Depths) => Count): Count => ({
    count: sum(({ depths }) => of(depths).count),
    kind: all.some(({ depths }) => of(depths).kind === 'about') ? 'about' : 'exact',
  });
  const oldest = (of: (depths: Depths) => number | null): number | null => {
    const ages = all.flatMap(({ depths }) => of(depths) ?? []);
    return ages.length === 0 ? null : Math.max(...ages);
  };
  const slots = sum(({ workers }) => workers.slots);
  const slotsInUse = sum(({ workers }) => workers.slotsInUse);
  return {
    answered: all.length,
    depths: {
      delayed: count(({ delayed }) => delayed),
      pending: count(({ pending }) => pending),
      ready: count(({ ready }) => ready),
      running: count(({ running }) => running),
      dead: count(({ dead }) => dead),
      oldestMs: oldest(({ oldestMs }) => oldestMs),
      claimAgeMs: oldest(({ claimAgeMs }) => claimAgeMs),
    },
    workers: {
      nodes: sum(({ workers }) => workers.nodes),
      slots,
      slotsInUse,
      leases: sum(({ workers }) => workers.leases),
      use: slots === 0 ? null : slotsInUse / slots,
    },
    donePerSecond: sum(({ donePerSecond }) => donePerSecond),
    warnings: sum(({ warnings }) => warnings.length),
  };
}
