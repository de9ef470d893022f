import type { Codec, Duration, Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import {
  backoffOf,
  createBell,
  durationMs,
  errorData,
  retryDelayMs,
  retryPauseMs,
  storableJson,
} from '@pgqueue/core/internal';
import type { Page, PeekedJob, ScanOptions, WaitingJob } from '@pgqueue/postgres';
import type { SettleRequest, SettleVerdict } from '@pgqueue/postgres/internal';
import {
  createHints,
  extend,
  isTransient,
  peekJobs,
  persistently,
  queueLength,
  release,
  scanJobs,
  settle,
} from '@pgqueue/postgres/internal';
import { encodedResult, keptError } from '../codec/encoding.ts';
import { unitsOf } from '../lease/unit.ts';
import type { Claimed } from '../claim/claims.ts';
import { createClaims } from '../claim/claims.ts';
import { createMembership } from '../node/node.ts';
import { createLowWater, createPace } from '../claim/poll-interval.ts';
import { createDecoder } from './decoder.ts';
import type { PulledJob } from './pulled-lease.ts';
import { PulledLease } from './pulled-lease.ts';
import type { PullerOptions } from './puller-options.ts';
import { checkClaim, pullerSettings } from './puller-options.ts';
import type { AskedJobs, AskedPuller, Jobs, Pulled, Puller } from './verbs.ts';
import type { NodeSettings } from '../node-options.ts';
import { connectionOptions } from '../node-options.ts';

/**
 * Creates a puller; opens no connection yet.
 * @throws {PgQueueError} `configuration`
 */
export function createPuller(options: PullerOptions): Puller {
  return new PullerNode(pullerSettings(options), options);
}

/**
 * Creates a puller of one of several installations; the caller waits over all of them.
 * @param onWork called when work may have become ready
 * @throws {PgQueueError} `configuration`
 */
export function createAskedPuller(options: PullerOptions, onWork: () => void): AskedPuller {
  return PullerNode.asked(new PullerNode(pullerSettings(options), options, onWork));
}

class PullerNode implements Puller {
  readonly node: string;
  readonly #slots: number;
  readonly #leases = new Set<PulledLease>();
  readonly #membership: ReturnType<typeof createMembership>;
  readonly #claims: ReturnType<typeof createClaims>;
  readonly #hints: ReturnType<typeof createHints>;
  readonly #lowWater = createLowWater();
  readonly #bell = createBell();
  readonly #codec: Codec | undefined;
  readonly #observe: Observer;
  readonly #decode: ReturnType<typeof createDecoder>;
  #asked = 0;
  #started: Promise<void> | undefined;
  #closed: Promise<void> | undefined;
  #fatal: PgQueueError | undefined;

  constructor(settings: NodeSettings, options: PullerOptions, onWork: () => void = () => {}) {
    this.#slots = settings.slots;
    this.node = settings.node;
    this.#codec = settings.codec;
    this.#observe = settings.observe;
    this.#membership = createMembership({
      settings,
      databaseOptions: connectionOptions(options),
      holding: this.#leases,
      insists: false,
      onWork: (released) => {
        if (released) this.#lowWater.drop();
        this.#bell.ring();
        onWork();
      },
      onFatal: (error) => (this.#fatal = error),
    });
    const { database } = this.#membership;
    this.#claims = createClaims({ ...this.#membership, node: this.node, observe: settings.observe });
    this.#decode = createDecoder({ ...settings, database });
    this.#hints = createHints(database, database.schema, 'done', 10);
  }

  get held(): number {
    return this.#leases.size;
  }

  async claim(
    wanted: { readonly max?: number; readonly waitMs?: number } = {},
  ): Promise<readonly PulledJob[]> {
    checkClaim(wanted);
    const { max = 1, waitMs = 0 } = wanted;
    const deadline = performance.now() + waitMs;
    const pace = createPace();
    for (let failures = 0; ;) {
      let pauseMs: number;
      try {
        await this.#start();
        const nowMs = performance.now();
        const { jobs } = await this.#ask(max);
        if (jobs.length > 0) return jobs;
        failures = 0;
        pauseMs = pace.next({ got: 0, asked: max, nowMs, hearing: this.#membership.hearing() });
      } catch (error) {
        this.#check();
        const ended = error instanceof PgQueueError && error.code === 'node_ended';
        if (!ended && (!isTransient(error) || performance.now() >= deadline)) throw error;
        failures += 1;
        pauseMs = retryPauseMs(failures);
        if (!ended) this.#observe({ type: 'database.error', during: 'claim', error, retryMs: pauseMs });
      }
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return [];
      await this.#bell.wait(Math.min(leftMs, pauseMs));
    }
  }

  async ack(jobs: Jobs, result?: unknown): Promise<Pulled> {
    if (result instanceof Error) {
      throw new PgQueueError('configuration', 'ack: an Error is no result: give it to nack(job, error)');
    }
    const text = storableJson(result);
    return this.#settle(
      pulled('ack', jobs),
      (verdicts) => verdicts,
      (job) => ({ outcome: 'done', delayMs: null, data: storedResult(this.#codec, job, text) }),
    );
  }

  async nack(job: PulledJob, error: unknown, after?: Duration): ReturnType<Puller['nack']> {
    pulled('nack', job);
    const policyMs = retryDelayMs(job.retry ?? backoffOf({}), job.tries + 1, Math.random());
    const delayMs = after === undefined ? policyMs : durationMs(after, 'delay');
    const told = { kind: 'error', ...errorData(error) };
    const stored = keptError(this.#codec, job, told);
    let verdict: SettleVerdict | undefined;
    await this.#settle(
      [job],
      (verdicts) => (verdict = verdicts.get(job.id)),
      () => ({ outcome: 'retry', delayMs, data: JSON.stringify(stored) }),
    );
    if (verdict === undefined) return 'stale';
    return verdict === 'repeated' ? 'retry' : verdict;
  }

  async extend(jobs: Jobs, by: Duration): Promise<Pulled> {
    const ms = durationMs(by, 'extend');
    const named = pulled('extend', jobs);
    const wanted = named.map(({ id, token }) => ({ id, token, ms }));
    let sentAt = performance.now();
    const answer = await persistently(() => {
      sentAt = performance.now();
      return extend(this.#membership.database, wanted);
    });
    for (const lease of this.#of(named)) {
      const extended = answer.get(lease.job.id);
      if (extended !== undefined) lease.extended(sentAt, ms);
      if (extended?.cancelled === true) lease.abort('cancelled');
    }
    return this.#told(named, (id) => answer.has(id));
  }

  async release(jobs: Jobs): Promise<Pulled> {
    const named = pulled('release', jobs);
    const released = await this.#away(named, () => release(this.#membership.database, named));
    return this.#told(named, (id) => released.has(id));
  }

  async peek(queue = 'default', max = 10): Promise<readonly PeekedJob[]> {
    return peekJobs(this.#membership.database, queue, max);
  }

  async length(queue = 'default'): Promise<number> {
    return queueLength(this.#membership.database, queue);
  }

  async scan(options: ScanOptions = {}): Promise<Page<WaitingJob>> {
    return scanJobs(this.#membership.database, options);
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  static asked(puller: PullerNode): AskedPuller {
    return {
      puller,
      start: () => puller.#start(),
      ask: (max) => puller.#ask(max),
      hearing: () => puller.#membership.hearing(),
    };
  }

  async #start(): Promise<void> {
    this.#check();
    this.#started ??= this.#membership.start().catch((error: unknown) => {
      this.#started = undefined; // the next try starts it anew
      throw error;
    });
    await this.#started;
  }

  async #ask(max: number): Promise<AskedJobs> {
    this.#check();
    for (const lease of this.#leases) {
      if (lease.lost) this.#forget(lease);
    }
    const used = unitsOf([...this.#leases].map(({ job }) => job)).length;
    const free = Math.min(max, this.#slots - used - this.#asked);
    if (free <= 0) return { jobs: [], room: 0 };
    const { rows, claimedAt } = await this.#claim(free);
    const jobs = rows.flatMap((row) => row.jobs);
    if (this.#closed !== undefined) throw closed(this.node); // leaving releases these jobs
    const tookMs = performance.now() - claimedAt;
    this.#lowWater.saw({ last: jobs.at(-1)?.position, filled: unitsOf(jobs).length >= free, tookMs });
    const { readable, end } = this.#decode(jobs);
    const leases = readable.map((job) => new PulledLease(job, claimedAt));
    for (const lease of leases) this.#leases.add(lease);
    await end();
    return { jobs: leases.map(({ job }) => job), room: free };
  }

  /** @throws {PgQueueError} the node can't go on */
  #check(): void {
    if (this.#fatal !== undefined) throw this.#fatal;
    if (this.#closed !== undefined) throw closed(this.node);
  }

  /** Claims, and counts the slots as taken meanwhile: claims may overlap. */
  async #claim(free: number): Promise<Claimed> {
    this.#asked += free;
    try {
      return await this.#claims({ max: free, ahead: null, ...this.#lowWater.range(performance.now()) });
    } finally {
      this.#asked -= free;
    }
  }

  async #settle(
    jobs: readonly PulledJob[],
    hear: (verdicts: ReadonlyMap<string, SettleVerdict>) => void,
    endOf: (job: PulledJob) => Pick<SettleRequest, 'outcome' | 'delayMs' | 'data'>,
  ): Promise<Pulled> {
    const settlements = jobs.map((job) => ({ id: job.id, token: job.token, ...endOf(job) }));
    const verdicts = await this.#away(jobs, (repeat) =>
      settle(this.#membership.database, settlements, { repeat }),
    );
    hear(verdicts);
    this.#hints.send();
    return this.#told(jobs, (id) => verdicts.has(id));
  }

  /**
   * Ends leases. Meanwhile the heartbeat does not report them as lost; after a failure the puller holds them
   * again.
   */
  async #away<Answer>(
    jobs: readonly PulledJob[],
    work: (again: boolean) => Promise<Answer>,
  ): Promise<Answer> {
    const leases = this.#of(jobs).filter(({ live }) => live);
    for (const lease of leases) lease.live = false;
    try {
      const answer = await persistently(work);
      for (const lease of leases) this.#forget(lease);
      return answer;
    } catch (error) {
      for (const lease of leases) lease.live = true;
      throw error;
    }
  }

  /** Sorts jobs by the database's answer. The puller drops stale leases, and their signals abort. */
  #told(jobs: readonly PulledJob[], isAccepted: (id: string) => boolean): Pulled {
    const stale = jobs.filter(({ id }) => !isAccepted(id));
    for (const lease of this.#of(stale)) {
      lease.abort('lease_lost');
      this.#forget(lease);
    }
    return {
      accepted: jobs.filter(({ id }) => isAccepted(id)).map(({ id }) => id),
      stale: stale.map(({ id }) => id),
    };
  }

  #forget(lease: PulledLease): void {
    lease.forget();
    this.#leases.delete(lease);
  }

  #of(jobs: readonly PulledJob[]): readonly PulledLease[] {
    const named = new Set(jobs);
    return [...this.#leases].filter(({ job }) => named.has(job));
  }

  async #close(): Promise<void> {
    for (const lease of this.#leases) lease.abort('shutdown');
    this.#bell.ring();
    this.#membership.drain();
    await this.#hints.stop();
    await this.#membership.leave();
    this.#leases.clear();
  }
}

/**
 * Returns the jobs that a verb was given, as a list.
 * @throws {PgQueueError} `configuration`: one of them is none, as a claim that took nothing gives
 */
export function pulled<Job extends PulledJob>(verb: string, jobs: Job | readonly Job[]): readonly Job[] {
  const named = Array.isArray(jobs) ? (jobs as readonly Job[]) : [jobs as Job];
  for (const job of named as readonly unknown[]) {
    if (typeof job === 'object' && job !== null && 'id' in job && 'token' in job) continue;
    const got = typeof job === 'object' && job !== null ? 'an object without id and token' : String(job);
    throw new PgQueueError(
      'configuration',
      `${verb} takes jobs that claim gave, one or a list, not ${got}: a claim that took nothing gives an empty list`,
    );
  }
  return named;
}

function closed(node: string): PgQueueError {
  return new PgQueueError('node_ended', `puller ${node} was closed: create another one`);
}

/** @throws {PgQueueError} `configuration`: the result is too long once it is encoded */
function storedResult(codec: Codec | undefined, job: PulledJob, text: string): string | null {
  if (codec === undefined) return text;
  const { data, problem } = encodedResult(codec, job, {
    text: text === 'null' ? null : text,
    strict: false,
  });
  if (problem !== undefined) throw new PgQueueError('configuration', `ack: ${problem}`);
  return data;
}
