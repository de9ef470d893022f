import type { Codec, Duration } from '@pgqueue/core';
import { allObservers, PgQueueError } from '@pgqueue/core';
import type { Bell } from '@pgqueue/core/internal';
import { createBell, isRecord } from '@pgqueue/core/internal';
import type { PeekedJob, ScanOptions, WaitingJob } from '@pgqueue/postgres';
import type { Pulled, Puller, PullerOptions } from '@pgqueue/worker';
import { checkClaim, createAskedPuller, pulled } from '@pgqueue/worker/internal';
import type { Member } from '../installations/member.ts';
import type { Answer } from '../operator/every.ts';
import { askAll, changedAll } from '../operator/every.ts';
import type { RouterPage } from '../operator/page.ts';
import { pageOver } from '../operator/page.ts';
import type { RouterPulledJob } from './claim.ts';
import { checkAnswered, createClaims } from './claim.ts';
import { Source } from './source.ts';

export type { RouterPulledJob } from './claim.ts';

/**
 * Options of `router.puller`: those of a puller, but for its database. `slots`: jobs that it may hold at once of each
 * installation, so that jobs of one that is down keep no slot from the others.
 */
export type RouterPullerOptions = Omit<PullerOptions, 'connectionString' | 'schema'>;

/** One job or several, of any installations. */
type Jobs = RouterPulledJob | readonly RouterPulledJob[];

/**
 * Takes jobs of all installations for code that is no handler. It is a node in each of them, and sends heartbeats by
 * itself from the first claim on. `ack`, `nack`, `extend` and `release` go to the installation that has handed the job
 * out, also if its key has moved since. They reject with `installation` if that does not answer; if jobs of several were
 * given, those of the others are done all the same: `data.accepted` and `data.stale` have their ids, and `data.failed` the
 * ids of the jobs to repeat, by installation.
 */
export interface RouterPuller {
  /** Node id by the name of each installation. */
  readonly nodes: Readonly<Record<string, string>>;
  /** Number of jobs that it holds, of all installations. */
  readonly held: number;
  /**
   * Leases up to `max` jobs (default 1; a bundle that the puller takes whole counts as one), and waits up to `waitMs`
   * (default 0) for the first. Asks the installations where jobs may wait, in turn: the one first that was not asked for
   * longest. One that does not answer is told to `observe` as `database.error`, and tried again later; it delays a claim by
   * one second at most, once. The first call registers the nodes, and waits up to 5 s until one is.
   * @throws {PgQueueError} `installation`: none answers, `data.failed` says why; `configuration`, `schema_version`,
   * `node_id_in_use`: names the first that is not as it should be; `node_ended`: it was closed
   */
  claim(wanted?: { readonly max?: number; readonly waitMs?: number }): Promise<readonly RouterPulledJob[]>;
  /**
   * Settles jobs as done, with a result that JSON can hold.
   * @throws {PgQueueError} `configuration`: the result is an Error; `installation`
   */
  ack(jobs: Jobs, result?: unknown): Promise<Pulled>;
  /**
   * Settles a job as failed, as that of a puller.
   * @throws {PgQueueError} `installation`
   */
  nack(job: RouterPulledJob, error: unknown, delay?: Duration): ReturnType<Puller['nack']>;
  /**
   * Moves the ends of the leases to this long from now.
   * @throws {PgQueueError} `installation`
   */
  extend(jobs: Jobs, by: Duration): Promise<Pulled>;
  /**
   * Gives jobs back unrun; nothing is counted.
   * @throws {PgQueueError} `installation`
   */
  release(jobs: Jobs): Promise<Pulled>;
  /**
   * Returns the first waiting jobs of a queue over all installations, by priority and age, without their payloads. Default:
   * 10 jobs of the queue `default`.
   * @throws {PgQueueError} `installation`: one does not answer
   */
  peek(queue?: string, max?: number): Promise<readonly PeekedJob[]>;
  /**
   * Returns how many jobs of a queue wait or run in all installations.
   * @throws {PgQueueError} `installation`: one does not answer
   */
  length(queue?: string): Promise<number>;
  /** Returns all waiting jobs, page by page. One cursor serves all installations: it is an id. */
  scan(options?: ScanOptions): Promise<RouterPage<WaitingJob>>;
  /** Releases all jobs that it holds, and leaves all installations. May be called again. */
  close(): Promise<void>;
}

/**
 * @param codec of the router, unless the options have one
 * @throws {PgQueueError} `configuration`, with all that is wrong
 */
export function createRouterPuller(
  members: readonly Member[],
  given: RouterPullerOptions,
  codec: Codec | undefined,
): RouterPuller {
  const options = codec === undefined || !isRecord(given) ? given : { codec, ...given };
  const bell = createBell();
  const closing = new AbortController();
  const observe = allObservers(options?.observe);
  const sources = members.map((member): Source => {
    return new Source({
      member,
      puller: (onWork) => createAskedPuller(optionsIn(member, options), onWork),
      alone: members.length === 1,
      onNews: bell.ring,
      observe,
      closing: closing.signal,
    });
  });
  let closed: Promise<void> | undefined;
  const open = (): void => {
    if (closed !== undefined)
      throw new PgQueueError('node_ended', 'this puller was closed: create another one');
  };
  const close = async (): Promise<void> => {
    closing.abort();
    bell.ring();
    await Promise.all(sources.map(({ puller }) => puller.close()));
  };
  return {
    nodes: Object.fromEntries(sources.map(({ member, puller }) => [member.installation.name, puller.node])),
    get held() {
      return sources.reduce((sum, { puller }) => sum + puller.held, 0);
    },
    claim: claimOver(sources, { bell, open }),
    ...verbsOver(sources),
    ...looksOver(sources, open),
    close: () => (closed ??= close()),
  };
}

/** Adds the database to the options. Those that are none stay, to be refused. */
function optionsIn({ installation }: Member, options: RouterPullerOptions): PullerOptions {
  if (!isRecord(options)) return options;
  const { connectionString, schema } = installation;
  return { ...options, connectionString, ...(schema === undefined ? {} : { schema }) };
}

function claimOver(
  sources: readonly Source[],
  { bell, open }: { readonly bell: Bell; readonly open: () => void },
): RouterPuller['claim'] {
  const { meet, round, nextMs } = createClaims(sources, bell);
  return async (wanted = {}) => {
    checkClaim(wanted);
    const { max = 1, waitMs = 0 } = wanted;
    open();
    const deadline = performance.now() + waitMs;
    await meet();
    for (let everywhere = true; ; everywhere = false) {
      checkSound(sources);
      const jobs = await round({ max, everywhere });
      open(); // closing has released these jobs
      if (jobs.length > 0) return jobs;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        checkSound(sources);
        checkAnswered(sources);
        return [];
      }
      await bell.wait(Math.min(leftMs, nextMs()));
    }
  };
}

/** @throws {PgQueueError} an error of an installation that repeating does not mend */
function checkSound(sources: readonly Source[]): void {
  const wrong = sources.find((source) => source.wrong !== undefined)?.wrong;
  if (wrong !== undefined) throw wrong;
}

/** Asks the installations of some sources at once. */
function askIn<Result>(
  sources: readonly Source[],
  ask: (source: Source) => Promise<Result>,
): Promise<readonly Answer<Result>[]> {
  const byMember = new Map(sources.map((source) => [source.member, source]));
  return askAll([...byMember.keys()], (member) => ask(byMember.get(member) as Source));
}

/** Verbs that go to the installation of each job. */
function verbsOver(sources: readonly Source[]): Pick<RouterPuller, 'ack' | 'nack' | 'extend' | 'release'> {
  const sourceOf = ({ id, installation }: RouterPulledJob): Source => {
    const found = sources.find(({ member }) => member.installation.name === installation);
    if (found !== undefined) return found;
    throw new PgQueueError('configuration', `job ${id} was claimed by no puller of this router`);
  };
  const over = async (
    what: string,
    given: Jobs,
    call: (source: Source, jobs: readonly RouterPulledJob[]) => Promise<Pulled>,
  ): Promise<Pulled> => {
    const jobs = pulled(what, given);
    const groups = Map.groupBy(jobs, sourceOf);
    const answers = await askIn([...groups.keys()], (source) => call(source, groups.get(source) ?? []));
    const idsIn = (name: string): readonly string[] =>
      jobs.filter(({ installation }) => installation === name).map(({ id }) => id);
    const done = answers.flatMap((answer) => (answer.ok ? [answer.value] : []));
    const answered = {
      accepted: done.flatMap(({ accepted }) => accepted),
      stale: done.flatMap(({ stale }) => stale),
    };
    const failed = answers.flatMap((answer) => (answer.ok ? [] : [answer]));
    const [first] = failed;
    if (first === undefined) return answered;
    const own = first.error instanceof PgQueueError && first.error.code !== 'installation';
    if (answers.length === 1 || (own && failed.length === answers.length)) throw first.error;
    throw new PgQueueError(
      'installation',
      `${what} of ${jobs.length} jobs: not ${failed.map(({ error }) => error.message).join('; ')}. Repeat it for the jobs of data.failed`,
      {
        data: {
          ...answered,
          failed: failed.map(({ installation, error }) => ({
            installation,
            jobs: idsIn(installation),
            message: error.message,
          })),
        },
        cause: first.error,
      },
    );
  };
  /** Ends leases: the slots of their installation are free then. */
  const end = async <Result>(source: Source, work: () => Promise<Result>): Promise<Result> => {
    const result = await work();
    source.freed();
    return result;
  };
  return {
    ack: (jobs, result) =>
      over('ack', jobs, (source, some) => end(source, () => source.puller.ack(some, result))),
    nack: async (job, error, delay) => {
      pulled('nack', job);
      const source = sourceOf(job);
      return source.member.run(() => end(source, () => source.puller.nack(job, error, delay)));
    },
    extend: (jobs, by) => over('extend', jobs, (source, some) => source.puller.extend(some, by)),
    release: (jobs) =>
      over('release', jobs, (source, some) => end(source, () => source.puller.release(some))),
  };
}

/** Looks without taking, over all installations. */
function looksOver(
  sources: readonly Source[],
  open: () => void,
): Pick<RouterPuller, 'peek' | 'length' | 'scan'> {
  const all = async <Result>(
    look: (puller: Source['puller']) => Promise<Result>,
  ): Promise<readonly Answer<Result>[]> => {
    open();
    return askIn(sources, ({ puller }) => look(puller));
  };
  return {
    peek: async (queue = 'default', max = 10) => {
      const peeked = changedAll(`peek into queue ${queue}`, await all((puller) => puller.peek(queue, max)));
      return peeked
        .flat()
        .toSorted((a, b) => a.priority - b.priority || a.created.getTime() - b.created.getTime())
        .slice(0, max);
    },
    length: async (queue = 'default') => {
      const lengths = changedAll(`length of queue ${queue}`, await all((puller) => puller.length(queue)));
      return lengths.reduce((sum, length) => sum + length, 0);
    },
    scan: async (options = {}) =>
      pageOver(await all((puller) => puller.scan(options)), {
        limit: options.limit ?? 100,
        order: 'oldest',
      }),
  };
}
