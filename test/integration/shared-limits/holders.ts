// Installations in virtual time that lease a shared limit from a real home, and dispatch by the real gates. Requests
// and answers may be lost or late; leaders may be replaced, or freeze and come back.
import type { Candidate, Json, Policy, PolicyState } from '@pgqueue/core';
import { fifo, policy } from '@pgqueue/core';
import type { Grant, SharedFlow, SharedUse } from '@pgqueue/core/internal';
import { sharedConcurrency, sharedRate } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { LeasedPart } from '@pgqueue/postgres/internal';
import { job, running, see } from '@pgqueue/testing/policy';

export interface LimitKind {
  readonly size: number;
  readonly perSecond: number | null;
}

interface Request {
  readonly epoch: number;
  readonly seen: number;
  readonly inFlight: number;
  readonly wants: number | null;
}

interface Plan {
  readonly state: PolicyState;
  readonly jobs: readonly Candidate[];
}

const leaseMs = 5_000;
const validMs = 4_500;
const name = 'api';

export class Holder {
  readonly number: number;
  inFlight: Candidate[] = [];
  #epoch = 1;
  #grant: { readonly grant: Grant; readonly askedMs: number } | undefined;
  #asked: { readonly request: Request; readonly askedMs: number } | undefined;
  readonly #late: Request[] = [];
  #state: PolicyState;
  #plan: Plan | undefined;
  #seq = 0;
  #writtenMs = 0;
  readonly #policy: Policy;
  readonly #home: Database;
  readonly #perSecond: number | null;
  /** Size that it tells. */
  size: number;
  /** Its database's clock minus the true time, which is that of the home. */
  readonly #offsetMs: number;

  constructor(home: Database, kind: LimitKind, { number, offsetMs }: { number: number; offsetMs: number }) {
    this.number = number;
    this.#home = home;
    this.size = kind.size;
    this.#perSecond = kind.perSecond;
    this.#offsetMs = offsetMs;
    const prepare = { everyMs: 1_000, deadlineMs: 1_000, fetch: () => Promise.resolve(null) };
    const rules = { name, home: 'one', prepare };
    const gate = kind.perSecond === null ? sharedConcurrency(rules) : sharedRate(rules);
    this.#policy = policy({ gates: [gate], order: fifo() });
    this.#state = this.#policy.initial;
  }

  /** Sends a request. `lost`: it stays on its way, and may arrive later. */
  ask(nowMs: number, lost: boolean): void {
    const state = (this.#state[name] ?? {}) as Partial<SharedUse & SharedFlow>;
    const { number: seen = 0, inFlight = 0, held = false } = state;
    const request = { epoch: this.#epoch, seen, inFlight, wants: held ? null : inFlight };
    if (lost) this.#late.push(request);
    this.#asked = lost ? undefined : { request, askedMs: nowMs };
  }

  /** The last request arrives. `lost`: its answer does not. */
  async answer(nowMs: number, lost: boolean): Promise<void> {
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked === undefined) return;
    const part = await this.#lease(nowMs, asked.request);
    if (part === undefined || lost || asked.request.epoch !== this.#epoch) return;
    this.#grant = { grant: { ...part, fromMs: nowMs + this.#offsetMs }, askedMs: asked.askedMs };
  }

  /** A request that was on its way arrives at last, perhaps of an earlier leader. */
  async arriveLate(nowMs: number): Promise<void> {
    const request = this.#late.shift();
    if (request !== undefined) await this.#lease(nowMs, request);
  }

  async #lease(nowMs: number, { epoch, seen, inFlight, wants }: Request): Promise<LeasedPart | undefined> {
    try {
      const [row] = await this.#home.query<LeasedPart>(
        `select number::float8 as number, part, rate, size, per_second as "perSecond"
         from pgqueue.lease_limit_at(to_timestamp($1::float8 / 1000), $2, $3, $4, $5, $6::float8, $7, $8, $9::integer, $10)`,
        [nowMs, name, this.number, epoch, this.size, this.#perSecond, seen, inFlight, wants, leaseMs],
      );
      return row;
    } catch (error) {
      if ((error as { code?: string }).code !== 'PQ002') throw error;
      return undefined;
    }
  }

  /** Plans on a snapshot of that time, which is not before the last write. The plan is written later. */
  plan(snapshotMs: number, waiting: number): void {
    const nowMs = Math.max(snapshotMs, this.#writtenMs);
    const held = this.#grant;
    const valid = held !== undefined && nowMs - held.askedMs < validMs;
    const ownMs = nowMs + this.#offsetMs;
    const prepared = valid ? { [name]: held.grant as Json } : {};
    const jobs = Array.from({ length: waiting }, (_, n) => job(this.#seq + n, { id: `${this.#seq + n}` }));
    const inFlight = this.inFlight.map((one) => running(one));
    const snapshot = see(jobs, { nowMs: ownMs, prepared, inFlight });
    const { dispatch, state } = this.#policy.plan(snapshot, this.#state);
    const chosen = new Set(dispatch.map(({ id }) => id));
    this.#plan = { state, jobs: jobs.filter(({ id }) => chosen.has(id)) };
    this.#seq += waiting;
  }

  /** Writes the last plan; resolves to how many jobs went. */
  write(nowMs: number): number {
    const plan = this.#plan;
    this.#plan = undefined;
    if (plan === undefined) return 0;
    const written = { atMs: nowMs + this.#offsetMs, ids: new Set(plan.jobs.map(({ id }) => id)) };
    this.#state = this.#policy.written?.(plan.state, written) ?? plan.state;
    this.#writtenMs = nowMs;
    this.inFlight.push(...plan.jobs);
    return plan.jobs.length;
  }

  end(count: number): void {
    this.inFlight.splice(0, count);
  }

  /** Another leader takes over. Requests of the last one may still arrive; its plan is refused. */
  restart(): void {
    if (this.#asked !== undefined) this.#late.push(this.#asked.request);
    this.#asked = undefined;
    this.#epoch += 1;
    this.#grant = undefined;
    this.#plan = undefined;
    const saved = Object.entries(this.#state).map(([part, state]) => [part, { state, savedMs: 0 }] as const);
    this.#state = this.#policy.restore?.(Object.fromEntries(saved)) ?? this.#policy.initial;
  }
}
