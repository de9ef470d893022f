import type { Enqueued, NewJob } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { isUuid, toJobRow, toJobRows } from '@pgqueue/core/internal';
import type { Member } from '../installations/member.ts';
import { knownElsewhere } from './before.ts';
import type { MovedParts } from './moved.ts';
import { learnMove } from './moved.ts';
import type { Producers } from './members.ts';
import type { Spread } from './spread.ts';

/** A job, and its place in the batch that was given. */
interface Entry {
  readonly index: number;
  /** Places of later jobs with the same id, which change nothing: their keys may have another home, which knows no such id. */
  readonly twins: number[];
  readonly job: NewJob;
  readonly home: Member;
}

/** Part of a batch that failed. */
interface Failure {
  readonly member: Member;
  readonly entries: readonly Entry[];
  readonly error: unknown;
}

export interface ManyParts extends MovedParts {
  readonly spread: Spread;
  readonly producers: Producers;
}

/**
 * Enqueues a batch: one statement for each installation that is the home of some of the jobs, all of them or none
 * there.
 * @throws {PgQueueError} the error itself if nothing was enqueued; otherwise `installation`, whose `data` tells both
 */
export async function enqueueSplit(parts: ManyParts, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
  const homes = jobs.map((job) => parts.spread(job.options ?? {}, job.task));
  const all = firstOfIds(jobs.map((job, index) => ({ index, twins: [], job, home: homes[index] as Member })));
  // found here, as each installation would tell only of its own
  if (new Set(homes).size > 1 || all.length < jobs.length)
    await toJobRows(jobs, (job) => toJobRow(job, anyId));
  const before = await knownElsewhere(
    parts.members,
    'job',
    all.map(({ job, home }) => ({ id: job.options?.id, home })),
  );
  const enqueued: (Enqueued | undefined)[] = jobs.map(() => undefined);
  const entries = all.filter((entry) => {
    const id = idOf(entry) ?? '';
    if (!before.has(id)) return true;
    tell(enqueued, entry, { id, outcome: 'repeated' });
    return false;
  });
  const failures = await place(parts, { entries, refusals: 0 }, enqueued);
  const [first] = failures;
  if (first === undefined) return enqueued as Enqueued[];
  if (enqueued.every((one) => one === undefined) && failures.length === 1) throw first.error;
  throw partly(failures, enqueued);
}

const anyId = (): string => '00000000-0000-7000-8000-000000000000';

/** The id that the caller chose for a job. */
function idOf({ job }: Entry): string | undefined {
  const id: unknown = job.options?.id;
  return typeof id === 'string' && isUuid(id) ? id.toLowerCase() : undefined;
}

/** The first of the entries of each id, with the places of the others. */
function firstOfIds(all: readonly Entry[]): readonly Entry[] {
  const firsts = new Map<string, Entry>();
  return all.filter((entry) => {
    const id = idOf(entry);
    if (id === undefined) return true;
    const first = firsts.get(id);
    if (first === undefined) firsts.set(id, entry);
    else first.twins.push(entry.index);
    return first === undefined;
  });
}

function tell(enqueued: (Enqueued | undefined)[], entry: Entry, outcome: Enqueued): void {
  enqueued[entry.index] = outcome;
  // one that met a job with its unique key meets it again
  const again: Enqueued = outcome.id === idOf(entry) ? { id: outcome.id, outcome: 'repeated' } : outcome;
  for (const twin of entry.twins) enqueued[twin] = again;
}

async function place(
  parts: ManyParts,
  { entries, refusals }: { readonly entries: readonly Entry[]; readonly refusals: number },
  enqueued: (Enqueued | undefined)[],
): Promise<readonly Failure[]> {
  const groups = [...Map.groupBy(entries, ({ home }) => home)];
  const failed = await Promise.all(
    groups.map(async ([member, group]): Promise<readonly Failure[]> => {
      try {
        const outcomes = await member.run(() =>
          parts.producers.routed(member).enqueueMany(group.map(({ job }) => job)),
        );
        for (const [n, entry] of group.entries()) tell(enqueued, entry, outcomes[n] as Enqueued);
        return [];
      } catch (error) {
        return again(parts, { member, group, error, refusals }, enqueued);
      }
    }),
  );
  return failed.flat();
}

/** Places jobs that an installation refused, under the ids that they had. */
async function again(
  parts: ManyParts,
  tried: {
    readonly member: Member;
    readonly group: readonly Entry[];
    readonly error: unknown;
    readonly refusals: number;
  },
  enqueued: (Enqueued | undefined)[],
): Promise<readonly Failure[]> {
  const { member, group, error, refusals } = tried;
  try {
    const { ids, known } = await learnMove(error, { ...parts, member, refusals });
    const left: Entry[] = [];
    for (const [n, entry] of group.entries()) {
      const { job, home } = entry;
      const id = ids[n] ?? '';
      if (known.has(id)) {
        tell(enqueued, entry, { id, outcome: 'repeated' });
        continue;
      }
      const { key = '' } = job.options;
      left.push({
        ...entry,
        job: { ...job, options: { ...job.options, id } },
        home: key === '' ? home : parts.routes.home(key),
      });
    }
    return await place(parts, { entries: left, refusals: refusals + 1 }, enqueued);
  } catch (failure) {
    return [{ member, entries: group, error: failure }];
  }
}

function partly(failures: readonly Failure[], enqueued: readonly (Enqueued | undefined)[]): PgQueueError {
  const done = enqueued.filter((one) => one !== undefined).length;
  const failed = failures.map(({ member, entries, error }) => ({
    installation: member.installation.name,
    jobs: entries.flatMap(({ index, twins }) => [index, ...twins]),
    message: error instanceof Error ? error.message : String(error),
  }));
  const told = failed.map(({ jobs, message }) => `${jobs.length} not: ${message}`).join('; ');
  return new PgQueueError(
    'installation',
    `${done} of ${enqueued.length} jobs were enqueued, ${told}. Enqueue those of data.failed again; data.enqueued has the outcomes of the others`,
    { data: { failed, enqueued: enqueued.map((one) => one ?? null) }, cause: failures[0]?.error },
  );
}
