import { PgQueueError } from '@pgqueue/core';
import type {
  CancelledJobs,
  JobExplanation,
  JobListOptions,
  JobsOperator,
  JobSummary,
  Operator,
  QueueChange,
  QueueSettings,
  SharedLimit,
  Status,
  Verdicts,
} from '@pgqueue/postgres';
import type { Installation } from '@pgqueue/postgres/internal';
import { totalsOf } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import type { KeysOperator } from '../move/keys.ts';
import type { LimitStatus, RouterLimits } from '../limits/limits-of.ts';
import { createRouterLimits, limitsOf } from '../limits/limits-of.ts';
import type { Checked } from './check.ts';
import { checkTogether } from './check.ts';
import { findIn, lookUpOrder } from '../producer/find.ts';
import type { Answer } from './every.ts';
import type { RouterPage } from './page.ts';
import { pageOver } from './page.ts';
import { askAll, changedAll, valuesOf } from './every.ts';
import type { Ask } from './verdicts.ts';
import { verdictsOf } from './verdicts.ts';

/** Status of one installation; null: it did not answer, and `error` says why. */
export interface InstallationStatus {
  readonly installation: string;
  readonly number: number;
  readonly state: 'active' | 'draining';
  readonly status: Status | null;
  readonly error: string | null;
}

/** Status of all installations. */
export interface RouterStatus {
  readonly installations: readonly InstallationStatus[];
  /** Sums over those that answered. `oldestMs`, `claimAgeMs`: of the oldest. */
  readonly totals: Status['totals'];
  readonly nodes: Pick<Status['nodes'], 'alive' | 'draining' | 'lost' | 'slots' | 'slotsInUse'>;
  /** Shared limits that those keep that answered. */
  readonly limits: readonly LimitStatus[];
}

/** Jobs of all installations: as those of one, but that a list tells which installations are missing in it. */
export interface RouterJobs extends Omit<JobsOperator, 'list'> {
  /** Lists jobs in pages, newest first, over all installations. One cursor serves them all: it is an id. */
  readonly list: (options?: JobListOptions) => Promise<RouterPage<JobSummary>>;
}

/**
 * Operations over all installations. A question by id goes to the installation that the id names, and to the others if
 * that one does not know it.
 */
export interface RouterOperator {
  readonly jobs: RouterJobs;
  /**
   * Changes settings in all installations. If some do not answer, rejects with `installation`: `data.changed` names
   * those that have it now, `data.failed` the others. Limits count in each installation by itself.
   */
  readonly queues: Pick<Operator['queues'], 'pause' | 'resume' | 'set' | 'forget'>;
  readonly keys: KeysOperator;
  readonly limits: RouterLimits;
  /** As of one installation. @throws {PgQueueError} `not_found`, `installation` */
  readonly explain: Operator['explain'];
  readonly status: () => Promise<RouterStatus>;
  /**
   * Checks that the installations fit together: numbers and names, schema versions, clocks, copies of routes, moves
   * of keys that stand still, shared limits.
   * @param options `mend`: writes missing copies of routes
   */
  readonly check: (options?: { readonly mend?: boolean }) => Promise<Checked>;
  /** Calls the operator of each installation, all at once. One that fails keeps no other one from answering. */
  readonly each: <Result>(
    ask: (operator: Operator, installation: Installation) => Promise<Result>,
  ) => Promise<readonly Answer<Result>[]>;
}

export interface RouterOperatorParts {
  readonly members: readonly Member[];
  readonly operatorOf: (member: Member) => Operator;
  readonly keys: KeysOperator;
  /** Throws when the router was closed. */
  readonly use: () => void;
}

export function createRouterOperator(parts: RouterOperatorParts): RouterOperator {
  const { members, operatorOf, use } = parts;
  const all = async <Result>(
    ask: (operator: Operator) => Promise<Result>,
  ): Promise<readonly Answer<Result>[]> => {
    use();
    return askAll(members, (member) => ask(operatorOf(member)));
  };
  const everywhere = async <Result>(
    what: string,
    change: (operator: Operator) => Promise<Result>,
  ): Promise<readonly Result[]> => changedAll(what, await all(change));
  const queueChange = async (
    what: string,
    change: (operator: Operator) => Promise<QueueChange>,
  ): Promise<QueueChange> => {
    const changes = await everywhere(what, change);
    return { isNew: changes.every(({ isNew }) => isNew) };
  };
  return {
    jobs: jobsOf(parts, all),
    queues: {
      pause: (queue) => queueChange(`pausing queue ${queue}`, ({ queues }) => queues.pause(queue)),
      resume: (queue) => queueChange(`resuming queue ${queue}`, ({ queues }) => queues.resume(queue)),
      set: (queue: string, settings: QueueSettings) =>
        queueChange(`setting queue ${queue}`, ({ queues }) => queues.set(queue, settings)),
      forget: async (queue) => {
        const answers = await all(({ queues }) => queues.forget(queue));
        // one that had no settings has none now, as asked
        const had = answers.filter((answer) => answer.ok || !isMissing(answer.error));
        const [first] = changedAll(`forgetting queue ${queue}`, had.length === 0 ? answers : had);
        if (first === undefined) throw new PgQueueError('invariant', 'no installation answered');
        return first;
      },
    },
    keys: parts.keys,
    limits: createRouterLimits(
      async () => limitsIn(members, await all(({ limits }) => limits.list())),
      (home) => operatorOf(members.find(({ installation }) => installation.name === home) as Member),
    ),
    explain: async (id, options): Promise<JobExplanation> => {
      use();
      return findIn(lookUpOrder(members, id), (member) => operatorOf(member).explain(id, options));
    },
    status: async () => {
      const [answers, limits] = await Promise.all([
        all((operator) => operator.status()),
        all((operator) => operator.limits.list()),
      ]);
      return { ...statusOf(members, answers), limits: limitsIn(members, limits) };
    },
    check: async ({ mend = false } = {}) => {
      use();
      return checkTogether(members, mend);
    },
    each: async (ask) => {
      use();
      return askAll(members, (member) => ask(operatorOf(member), member.installation));
    },
  };
}

function isMissing(error: Error): boolean {
  return error instanceof PgQueueError && error.code === 'not_found';
}

type All = <Result>(ask: (operator: Operator) => Promise<Result>) => Promise<readonly Answer<Result>[]>;

function jobsOf(parts: RouterOperatorParts, all: All): RouterJobs {
  const { members, operatorOf, use } = parts;
  const byId = async <Verdict extends string>(
    ids: readonly string[],
    ask: Ask<Verdict>,
  ): Promise<Verdicts<Verdict>> => {
    use();
    return verdictsOf(parts, ids, ask);
  };
  /** Finds one job; undefined: no installation has it. */
  const find = async <Result>(
    id: string,
    ask: (jobs: JobsOperator) => Promise<Result | undefined>,
  ): Promise<Result | undefined> => {
    use();
    try {
      return await findIn(lookUpOrder(members, id), async (member) => {
        const found = await ask(operatorOf(member).jobs);
        if (found === undefined) throw new PgQueueError('not_found', `there is no job ${id}`);
        return found;
      });
    } catch (error) {
      if (error instanceof PgQueueError && error.code === 'not_found') return undefined;
      throw error;
    }
  };
  return {
    get: (id) => find(id, (jobs) => jobs.get(id)),
    wait: (id, options) => find(id, (jobs) => jobs.wait(id, options)),
    list: async (options = {}) =>
      pageOver(await all(({ jobs }) => jobs.list(options)), { limit: options?.limit ?? 50, order: 'newest' }),
    cancel: (ids) => byId(ids, ({ jobs }, some) => jobs.cancel(some)),
    count: async (filter) => {
      const counts = changedAll('counting jobs', await all(({ jobs }) => jobs.count(filter)));
      return { count: sum(counts, ({ count }) => count), more: counts.some(({ more }) => more) };
    },
    cancelAll: async (filter, options) => {
      const told = new Map<Operator, CancelledJobs>();
      const onProgress = options?.onProgress;
      const cancelIn = (operator: Operator): Promise<CancelledJobs> =>
        operator.jobs.cancelAll(filter, {
          ...options,
          ...(onProgress === undefined
            ? {}
            : {
                onProgress: (soFar) => {
                  told.set(operator, soFar);
                  onProgress(cancelledIn([...told.values()]));
                },
              }),
        });
      return cancelledIn(changedAll('cancelling jobs', await all(cancelIn)));
    },
    runNow: (ids) => byId(ids, ({ jobs }, some) => jobs.runNow(some)),
    retry: (ids) => byId(ids, ({ jobs }, some) => jobs.retry(some)),
    amend: (ids, amendment) => byId(ids, ({ jobs }, some) => jobs.amend(some, amendment)),
    erase: (ids) => byId(ids, ({ jobs }, some) => jobs.erase(some)),
    signal: async (id, name, value) => {
      use();
      return findIn(lookUpOrder(members, id), (member) => operatorOf(member).jobs.signal(id, name, value));
    },
  };
}

function cancelledIn(all: readonly CancelledJobs[]): CancelledJobs {
  return {
    cancelled: sum(all, ({ cancelled }) => cancelled),
    signalled: sum(all, ({ signalled }) => signalled),
    busy: sum(all, ({ busy }) => busy),
    missing: sum(all, ({ missing }) => missing),
  };
}

function limitsIn(
  members: readonly Member[],
  answers: readonly Answer<readonly SharedLimit[]>[],
): readonly LimitStatus[] {
  return answers
    .flatMap((answer) => (answer.ok ? limitsOf(answer.installation, answer.value, members) : []))
    .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function statusOf(
  members: readonly Member[],
  answers: readonly Answer<Status>[],
): Omit<RouterStatus, 'limits'> {
  const installations = answers.map((answer, index): InstallationStatus => ({
    installation: answer.installation,
    number: answer.number,
    state: members[index]?.installation.state ?? 'active',
    status: answer.ok ? answer.value : null,
    error: answer.ok ? null : answer.error.message,
  }));
  const all = valuesOf(answers);
  const nodes = all.map((status) => status.nodes);
  return {
    installations,
    totals: totalsOf(all.flatMap(({ queues }) => queues)),
    nodes: {
      alive: sum(nodes, ({ alive }) => alive),
      draining: sum(nodes, ({ draining }) => draining),
      lost: sum(nodes, ({ lost }) => lost),
      slots: sum(nodes, ({ slots }) => slots),
      slotsInUse: sum(nodes, ({ slotsInUse }) => slotsInUse),
    },
  };
}

function sum<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
