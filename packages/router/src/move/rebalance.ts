import { homeOf } from '@pgqueue/core/internal';
import { countKey, keysHere } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import { allRoutes, newestOf } from '../route/routes.ts';
import type { KeyMoved, MoveParts, MoveWish } from './move.ts';

/** A move that would be made. */
export interface PlannedMove {
  readonly key: string;
  readonly from: string;
  readonly to: string;
  /** Jobs of the key that would be handed over, also those that may have run by then. */
  readonly jobs: number;
}

/** Moves that would be made, and how long they would take. */
export interface MovePlan {
  readonly moves: readonly PlannedMove[];
  readonly jobs: number;
  /** Estimate: running jobs are waited for, and take as long as they do. */
  readonly minutes: number;
}

/** A move that did not succeed. */
export interface FailedMove extends PlannedMove {
  readonly message: string;
}

/** Result of moving many keys. Repeating it goes on with those that failed. */
export interface Rebalanced {
  readonly moved: readonly KeyMoved[];
  readonly failed: readonly FailedMove[];
}

/** Which keys are to move. */
export interface RebalanceWish {
  /** Moves its keys away: by the hash over the others. */
  readonly drain?: Member | undefined;
  /** Counts as active, though it is draining in the list. */
  readonly add?: Member | undefined;
}

/** Installations that are to have keys. */
export function activeOf(members: readonly Member[], { drain, add }: RebalanceWish): readonly Member[] {
  return members.filter((one) => (one.installation.state !== 'draining' || one === add) && one !== drain);
}

/** Jobs that a move brings over in a second, on a machine of 2 cores with both installations. */
const jobsPerSecond = 15_000;
/** Seconds that a move takes without any job. */
const moveSeconds = 0.05;
/** Moves under way at once. */
const atOnce = 3;

interface Wanted {
  readonly wish: MoveWish & { readonly from: Member };
  readonly planned: PlannedMove;
}

/** Says what a move of one key would do. */
export async function planMove(from: Member, wish: MoveWish): Promise<MovePlan> {
  const { waiting, delayed, running } = await from.run(() => countKey(from.patient(), wish.key));
  const names = { from: from.installation.name, to: wish.to.installation.name };
  return planOf([{ key: wish.key, ...names, jobs: waiting + delayed + running }]);
}

function planOf(moves: readonly PlannedMove[]): MovePlan {
  const jobs = moves.reduce((sum, move) => sum + move.jobs, 0);
  const seconds = jobs / jobsPerSecond + (moves.length * moveSeconds) / Math.min(atOnce, moves.length || 1);
  return { moves, jobs, minutes: Math.ceil(seconds / 6) / 10 };
}

/** Says which keys are not where they belong. */
export async function planRebalance(parts: MoveParts, wish: RebalanceWish): Promise<MovePlan> {
  return planOf((await misplaced(parts, wish)).map(({ planned }) => planned));
}

/** Moves all keys to where they belong. A key that fails keeps no other one from moving. */
export async function rebalance(
  parts: MoveParts & { readonly move: (wish: MoveWish) => Promise<KeyMoved> },
  wish: RebalanceWish,
  options: Pick<MoveWish, 'onProgress' | 'signal'>,
): Promise<Rebalanced> {
  // jobs of a key may be in several installations: they come one after the other
  const left = [
    ...Map.groupBy(await misplaced(parts, wish), ({ planned }) => planned.key).values(),
  ].toReversed();
  const moved: KeyMoved[] = [];
  const failed: FailedMove[] = [];
  const moveOne = async ({ wish: one, planned }: Wanted): Promise<void> => {
    options.signal?.throwIfAborted();
    try {
      moved.push(await parts.move({ ...one, ...options }));
    } catch (error) {
      if (options.signal?.aborted === true) throw error;
      failed.push({ ...planned, message: error instanceof Error ? error.message : String(error) });
    }
  };
  const mover = async (): Promise<void> => {
    for (let next = left.pop(); next !== undefined; next = left.pop())
      for (const one of next) await moveOne(one);
  };
  await Promise.all(Array.from({ length: atOnce }, mover));
  return { moved, failed };
}

/**
 * Finds keys that are not where they belong: those with jobs in an installation that is not their home, and those that a
 * route sends to one that is to be drained. A route to any other one stays as an operator has made it.
 */
async function misplaced({ members, routes }: MoveParts, wish: RebalanceWish): Promise<readonly Wanted[]> {
  const { drain } = wish;
  // all must answer: a route that is not seen would send a key to the wrong home
  const all = await Promise.all(members.map((member) => member.run(() => allRoutes(member))));
  for (const route of all.flat()) routes.learn(route);
  const byNumber = new Map(members.map((member) => [member.installation.number, member]));
  const active = activeOf(members, wish).map(({ installation }) => installation.number);
  const homeFor = (key: string): Member | undefined => {
    const { installation: routed } = routes.of(key) ?? {};
    const number =
      routed === undefined || routed === drain?.installation.number ? homeOf(key, active) : routed;
    return byNumber.get(number);
  };
  const found = new Map<string, Wanted>();
  const note = (key: string, from: Member, jobs: number): void => {
    const to = homeFor(key);
    if (key === '' || to === undefined || to === from) return;
    const names = { from: from.installation.name, to: to.installation.name };
    found.set(`${from.installation.number} ${key}`, {
      wish: { key, to, from },
      planned: { key, ...names, jobs },
    });
  };
  for (const route of drain === undefined ? [] : newestOf(all.flat()))
    if (route.installation === drain?.installation.number) note(route.key, drain, 0);
  for (const from of drain === undefined ? members : [drain]) {
    for (let after = ''; ;) {
      const keys = await from.run(() => keysHere(from.patient(), after));
      const last = keys.at(-1);
      if (last === undefined) break;
      for (const { key, jobs } of keys) note(key, from, jobs);
      after = last.key;
    }
  }
  return [...found.values()];
}
