import type { Json, Leading, Preparation } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Grant, SharedFlow, SharedUse } from '@pgqueue/core/internal';
import { within } from '@pgqueue/core/internal';
import {
  leadershipLostState,
  leaseLimit,
  readSharedLimits,
  sqlState,
  textOf,
} from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import type { Connections } from './connections.ts';
import { nowOfLeader } from './connections.ts';

/** Length of a lease, and time between two renewals, in milliseconds. */
export const leaseMs = 5_000;
export const renewMs = 1_000;

/** Size of a limit. `perSecond` null: it is a concurrency; else `size` is the burst. */
export interface LimitSize {
  readonly size: number;
  readonly perSecond: number | null;
}

/** One limit, as the scheduler of one installation asks for its part. */
export interface LeasingOptions {
  readonly connections: Connections;
  readonly name: string;
  readonly home: string;
  readonly self: string;
  readonly size: LimitSize;
}

type MemberOf = (name: string) => Member;

/** A leader that asks, and the connections that it asks by. */
interface Asked {
  readonly memberOf: MemberOf;
  readonly leading: Leading;
}

/**
 * Creates the fetch of a shared limit's gate: tells the home what the gate's state says, and fetches the next part.
 *
 * The home gives a smaller part's difference to others only when the state has told its number back. So answers and
 * requests may be lost, late or in another order, and a frozen leader of an earlier term changes nothing: its requests
 * are refused once a later leader has asked, and before that, none has dispatched.
 */
export function createLeasing(options: LeasingOptions): Preparation['fetch'] {
  const { connections, name, home, self, size } = options;
  const wants = size.perSecond === null ? wantsOfUse : createWantsOfFlow(size.size, size.perSecond);
  /** Term of the last lease, and how often in it this process has made sure that it leads `self`, of a limit with one home. */
  let checked = { epoch: -1, times: 0 };

  const lease = async (asked: Asked): Promise<Grant> => {
    const { memberOf, leading } = asked;
    if (checked.epoch !== leading.epoch) checked = { epoch: leading.epoch, times: 0 };
    if (checked.times < checksMax) await checkTerm(options, asked);
    checked.times += 1;
    const own = memberOf(self);
    const keeper = memberOf(home);
    const state = (leading.state ?? {}) as Partial<SharedUse & SharedFlow>;
    const answer = await refusing(options, () =>
      keeper.run(() =>
        leaseLimit(keeper.database, {
          limit: name,
          installation: own.installation.number,
          epoch: leading.epoch,
          ...size,
          seen: state.number ?? 0,
          inFlight: state.inFlight ?? 0,
          wants: wants(leading),
          leaseMs,
        }),
      ),
    );
    return { ...answer, fromMs: await nowOfLeader(own, leading) };
  };

  return (signal, leading) =>
    connections.use<Json>(signal, (memberOf) =>
      leading === undefined ? look(options, memberOf) : lease({ memberOf, leading }),
    );
}

/** Two leaders may begin at once with different homes: the second check of one of them finds the limit of the other. */
const checksMax = 2;
/** Longest wait for the answer of another installation, in milliseconds. */
const lookMs = 500;

/**
 * Makes sure, at the beginning of a term, that this scheduler leads the installation that it leases for, and that no other
 * installation keeps a limit of this name. One that does not answer soon is left out: `installations check` tells two homes.
 */
async function checkTerm(
  { connections, name, home, self }: LeasingOptions,
  { memberOf, leading }: Asked,
): Promise<void> {
  await nowOfLeader(memberOf(self), leading);
  const others = connections.names.filter((one) => one !== home).map(memberOf);
  const kept = await Promise.all(
    others.map(async (member) => {
      const limits = member.run(() => readSharedLimits(member.database)).catch(() => []);
      return (await within(lookMs, limits)) ? limits : [];
    }),
  );
  for (const [index, limits] of kept.entries()) {
    if (!limits.some((limit) => limit.name === name)) continue;
    const other = others[index]?.installation.name ?? '';
    throw new PgQueueError(
      'configuration',
      `shared limit ${name} has its home in ${other}, and here it is ${home}: name the same home everywhere, or remove the limit in ${other} first`,
    );
  }
}

/** Runs a lease, and says in the refusal of the home what to do. */
async function refusing<Result>(
  { name, home }: LeasingOptions,
  lease: () => Promise<Result>,
): Promise<Result> {
  try {
    return await lease();
  } catch (error) {
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    if (sqlState(error) !== '55000' && sqlState(error) !== leadershipLostState) throw error;
    throw new PgQueueError('configuration', `${home} refuses shared limit ${name}: ${textOf(cause)}`, {
      cause: error,
    });
  }
}

/** Part of this installation now, for a policy that dispatches nothing. */
async function look({ name, home, self, size }: LeasingOptions, memberOf: MemberOf): Promise<Grant> {
  const { database, run } = memberOf(home);
  const limits = await run(() => readSharedLimits(database));
  const { number } = memberOf(self).installation;
  const part = limits
    .find((limit) => limit.name === name)
    ?.parts.find(({ installation }) => installation === number);
  return { number: 0, part: part?.part ?? 0, rate: part?.perSecond ?? 0, ...size, fromMs: 0 };
}

/** Spare part that an installation keeps whose jobs are not held, so that a few more need not wait: a quarter. */
const spare = 1.25;

/** Part of a concurrency that the installation could use; null: jobs wait for it. */
function wantsOfUse({ state }: Leading): number | null {
  const { inFlight = 0, held = false } = (state ?? {}) as Partial<SharedUse>;
  if (held) return null;
  return inFlight === 0 ? 0 : Math.max(inFlight + 1, Math.ceil(inFlight * spare));
}

/** Returns a function that measures the part of a rate that the installation uses, from one call to the next. */
function createWantsOfFlow(size: number, perSecond: number): (leading: Leading) => number | null {
  let last: { readonly epoch: number; readonly taken: number; readonly at: number } | undefined;
  return ({ epoch, state }) => {
    const { taken = 0, held = false } = (state ?? {}) as Partial<SharedFlow>;
    const before = last?.epoch === epoch ? last : undefined;
    const at = performance.now();
    last = { epoch, taken, at };
    if (held) return null;
    if (before === undefined || taken <= before.taken || perSecond === 0) return 0;
    const used = (taken - before.taken) / ((at - before.at) / 1_000) / perSecond;
    return Math.min(size, Math.max(1, Math.ceil(size * used * spare)));
  };
}
