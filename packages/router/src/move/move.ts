import { PgQueueError } from '@pgqueue/core';
import type { KeyMove, Route } from '@pgqueue/postgres/internal';
import {
  claimMove,
  dropClaim,
  holdKey,
  leaveKey,
  openKey,
  persistently,
  readRoute,
  setRoute,
} from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import { schemaOf } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';
import type { MoveProgress, Moved } from './steps.ts';
import { handOverAll, isOver } from './steps.ts';

/** Result of a move. */
export interface KeyMoved {
  readonly key: string;
  readonly from: string;
  readonly to: string;
  /** Jobs that came to the new home by this call. Those that went before a crash are not counted again. */
  readonly jobs: number;
  /** Jobs that were there already, by their ids. */
  readonly known: number;
  /** Jobs that came without their unique key, which a newer job has in the new home: both run. */
  readonly freed: number;
  /** Milliseconds for which neither home began a job of the key; null: another mover ended the move. */
  readonly pausedMs: number | null;
  readonly tookMs: number;
  /** Installations that have no copy of the new route yet: `check({ mend: true })` writes it. */
  readonly unreachable: readonly string[];
}

export interface MoveParts {
  readonly members: readonly Member[];
  readonly routes: Routes;
}

/** One move. `from`: where jobs of the key are; undefined: in its home. */
export interface MoveWish {
  readonly key: string;
  readonly to: Member;
  readonly from?: Member;
  readonly onProgress?: ((progress: MoveProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A move that has been begun, by this call or an earlier one. */
interface Begun {
  readonly from: Member;
  readonly version: number;
}

/** Moves a key. Any number of movers may do so at once: they go on with the same move. */
export async function moveKey(parts: MoveParts, wish: MoveWish): Promise<KeyMoved> {
  const { key, to, onProgress, signal } = wish;
  const startedAt = performance.now();
  const { from, version } = await begin(parts, wish);
  const id = { key, version };
  const tell = (progress: Omit<MoveProgress, 'key'>): void => onProgress?.({ key, ...progress });
  const moved: Moved = await named(from, to, () =>
    handOverAll({
      id,
      old: from.patient(),
      home: to.patient(),
      from: from.installation.number,
      tell,
      signal,
    }),
  );
  const openedAt = performance.now();
  await to.run(() => persistently(() => openKey(to.patient(), id)));
  const pausedMs = moved.pausedMs === null ? null : moved.pausedMs + (performance.now() - openedAt);
  const settled = { key, installation: to.installation.number, version: version + 1, movingFrom: null };
  const unreachable = await spread(parts, settled);
  tell({ phase: 'open', jobs: moved.jobs });
  return {
    key,
    from: from.installation.name,
    to: to.installation.name,
    ...moved,
    pausedMs,
    tookMs: performance.now() - startedAt,
    unreachable,
  };
}

/** Runs steps that take two installations; an error of a step says that, and how to go on. */
async function named<Result>(from: Member, to: Member, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') throw error;
    const [one, other] = [from.installation.name, to.installation.name];
    const message = error instanceof Error ? error.message || error.name : String(error);
    throw new PgQueueError(
      'installation',
      `moving from ${one} to ${other}: ${message}. Nothing is lost; repeat the move, and it goes on`,
      { data: { from: one, to: other }, cause: error },
    );
  }
}

/** Most readings of routes that turn out to be old. */
const readingsMax = 4;

/**
 * Begins a move, or finds the one that is under way: notes it in the old home, holds the key in the new one, and only
 * then has the old one refuse enqueues.
 * @throws {PgQueueError} `configuration`: the key is there already, or moves elsewhere; `installation`
 */
async function begin(parts: MoveParts, wish: MoveWish): Promise<Begun> {
  const { key, to } = wish;
  for (let readings = 1; ; readings += 1) {
    const { route, from } = await whereIs(parts, wish);
    await sameSchemas(from, to);
    const under = route !== undefined && route.movingFrom !== null;
    const version = under ? route.version : (route?.version ?? 0) + 1;
    const claim = await from.run(() => claimMove(from.patient(), { key, version }, to.installation.number));
    const own = claim === null ? undefined : ownVersion(parts, { key, from, to }, claim);
    if (own !== undefined) {
      const id = { key, version: own };
      const [{ number }, { number: movingFrom }] = [to.installation, from.installation];
      const routed = { ...id, installation: number, movingFrom };
      try {
        const seq = await to.run(() => holdKey(to.patient(), id, from.installation.number));
        await from.run(() => leaveKey(from.patient(), id, seq));
        await to.run(() => setRoute(to.patient(), routed));
        parts.routes.learn(routed);
        return { from, version: own };
      } catch (error) {
        if (!isOver(error instanceof Error ? error.cause : error)) throw error;
        // the routes were old: another move has ended
        await from.run(() => dropClaim(from.patient(), id));
      }
    }
    if (readings === readingsMax)
      throw new PgQueueError(
        'installation',
        `key ${JSON.stringify(key)} moves again and again while it is looked at: try later`,
        { data: { key } },
      );
  }
}

/** Returns the version of a claim that is for the same move. @throws {PgQueueError} `configuration`: it is for another */
function ownVersion(
  { members }: MoveParts,
  { key, from, to }: { readonly key: string; readonly from: Member; readonly to: Member },
  { side, peer, version }: KeyMove,
): number {
  if (side === 'out' && peer === to.installation.number) return version;
  const other = nameOf(members, peer);
  const [home, towards] = side === 'out' ? [from.installation.name, other] : [other, from.installation.name];
  throw underWay(key, home, towards);
}

function underWay(key: string, from: string, to: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `key ${JSON.stringify(key)} is on its way from ${from} to ${to}: first end that, by moving it to ${to}`,
    { data: { key, from, to } },
  );
}

/** Finds the installation that a key is to leave, and changes nothing. @throws {PgQueueError} as `moveKey` */
export async function findMove(parts: MoveParts, wish: MoveWish): Promise<Member> {
  const { from } = await whereIs(parts, wish);
  await sameSchemas(from, wish.to);
  return from;
}

/**
 * Finds the newest route of a key, and the installation that it is to leave.
 * @throws {PgQueueError} `configuration`: it is there already, or moves elsewhere
 */
async function whereIs(
  { members, routes }: MoveParts,
  { key, to, from: given }: MoveWish,
): Promise<{ readonly route: Route | undefined; readonly from: Member }> {
  // one that does not answer is no home of the key: both homes of a move have its route, and both are asked for more
  const found = await Promise.allSettled(
    members.map((member) => member.run(() => readRoute(member.database, key))),
  );
  for (const one of found) if (one.status === 'fulfilled' && one.value !== undefined) routes.learn(one.value);
  await to.identified();
  const route = found
    .flatMap((one) => (one.status === 'fulfilled' && one.value !== undefined ? [one.value] : []))
    .toSorted((a, b) => b.version - a.version)[0];
  if (route !== undefined && route.movingFrom !== null) {
    if (route.installation === to.installation.number)
      return { route, from: memberOf(members, route.movingFrom) };
    throw underWay(key, nameOf(members, route.movingFrom), nameOf(members, route.installation));
  }
  const from = given ?? routes.home(key);
  if (from !== to) return { route, from };
  if (route !== undefined) {
    // an end of the hold that a crash has undone
    await to.run(() => openKey(to.patient(), { key, version: route.version - 1 }));
    await spread({ members, routes }, route);
  }
  throw new PgQueueError(
    'configuration',
    `${to.installation.name} is the home of key ${JSON.stringify(key)} already: there is nothing to move`,
    { data: { key, installation: to.installation.name } },
  );
}

/** @throws {PgQueueError} `schema_version` */
async function sameSchemas(from: Member, to: Member): Promise<void> {
  const [old, home] = await Promise.all([from, to].map((member) => member.run(() => schemaOf(member))));
  if (old === home) return;
  const behind = (old ?? 0) < (home ?? 0) ? from : to;
  throw new PgQueueError(
    'schema_version',
    `the schema of ${from.installation.name} is at version ${old}, that of ${to.installation.name} at ${home}: run "pgqueue migrate" for ${behind.installation.name}, and move then`,
  );
}

/** Writes a settled route everywhere. Returns the names of those that did not answer. */
async function spread({ members, routes }: MoveParts, route: Route): Promise<readonly string[]> {
  routes.learn(route);
  const wrote = await Promise.allSettled(
    members.map((member) => member.run(() => setRoute(member.database, route))),
  );
  return members.flatMap(({ installation }, index) =>
    wrote[index]?.status === 'rejected' ? [installation.name] : [],
  );
}

function memberOf(members: readonly Member[], number: number): Member {
  const found = members.find(({ installation }) => installation.number === number);
  if (found !== undefined) return found;
  throw new PgQueueError(
    'configuration',
    `installation ${number} is not in the list: add it, since it has jobs of a key that is on its way`,
    { data: { number } },
  );
}

function nameOf(members: readonly Member[], number: number): string {
  return (
    members.find(({ installation }) => installation.number === number)?.installation.name ?? String(number)
  );
}
