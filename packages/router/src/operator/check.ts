import type { OpenMove, Route } from '@pgqueue/postgres/internal';
import { readMoves, readSharedLimits, setRoute } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import { identityProblemOf, schemaOf } from '../installations/member.ts';
import { limitMisfits } from '../limits/limit-misfits.ts';
import type { LimitStatus } from '../limits/limits-of.ts';
import { limitsOf } from '../limits/limits-of.ts';
import { allRoutes, newestOf } from '../route/routes.ts';

/** Something that does not fit, and what to do. */
export interface Misfit {
  readonly kind: 'unreachable' | 'identity' | 'schema' | 'clock' | 'routes' | 'move' | 'limits';
  readonly installation: string;
  readonly message: string;
  /** Put right by this check. */
  readonly mended: boolean;
}

/** Facts of one installation; those that it did not tell are null. */
export interface CheckedInstallation {
  readonly installation: string;
  readonly number: number;
  readonly state: 'active' | 'draining';
  readonly schemaVersion: number | null;
  /** Its clock minus that of this process, in milliseconds. */
  readonly clockMs: number | null;
  /** Largest error of `clockMs`: half of the round trip. */
  readonly clockErrorMs: number | null;
  /** Number of routes of moved keys that it has. */
  readonly routes: number | null;
}

/** Result of a check of all installations. */
export interface Checked {
  readonly installations: readonly CheckedInstallation[];
  /** Empty: all fit together. */
  readonly misfits: readonly Misfit[];
}

interface Seen {
  readonly member: Member;
  readonly version: number;
  readonly clock: Clock;
  readonly routes: readonly Route[];
  readonly moves: readonly OpenMove[];
  readonly limits: readonly LimitStatus[];
}

interface Clock {
  readonly offsetMs: number;
  readonly errorMs: number;
}

/** Clocks that differ by more are told: rates, retries and schedules of one key then jump when it moves. */
const clockMaxMs = 1_000;
const clockReadings = 3;

export async function checkTogether(members: readonly Member[], mend: boolean): Promise<Checked> {
  const misfits: Misfit[] = [];
  const seen: Seen[] = [];
  const looked = await Promise.allSettled(members.map((member) => look(member, members)));
  for (const [index, one] of looked.entries()) {
    const member = members[index] as Member;
    const { name: installation } = member.installation;
    if (one.status === 'rejected') {
      const { reason } = one as { readonly reason: unknown };
      const message = reason instanceof Error ? reason.message || reason.name : String(reason);
      misfits.push({
        kind: 'unreachable',
        installation,
        message: `can't be asked: ${message}`,
        mended: false,
      });
      continue;
    }
    const { problem, ...facts } = one.value;
    if (problem === undefined) seen.push(facts);
    else misfits.push({ kind: 'identity', installation, message: problem, mended: false });
  }
  misfits.push(...schemaMisfits(seen), ...clockMisfits(seen), ...unknownHomes(seen, members));
  misfits.push(...standingMoves(seen, members));
  misfits.push(...(await routeMisfits(seen, mend)));
  for (const misfit of limitMisfits(seen.flatMap(({ limits }) => limits)))
    misfits.push({ kind: 'limits', ...misfit, mended: false });
  return { installations: members.map((member) => factsOf(member, seen)), misfits };
}

async function look(
  member: Member,
  members: readonly Member[],
): Promise<Seen & { readonly problem: string | undefined }> {
  const { database, installation } = member;
  const problem = await identityProblemOf(member, members.length === 1);
  return {
    member,
    problem,
    version: await schemaOf(member),
    clock: await clockOf(member),
    routes: await allRoutes(member),
    moves: await readMoves(database),
    limits: limitsOf(installation.name, await readSharedLimits(database), members),
  };
}

/** Reads the clock a few times, and takes the reading with the shortest round trip. */
async function clockOf({ database }: Member): Promise<Clock> {
  let best: Clock = { offsetMs: 0, errorMs: Number.POSITIVE_INFINITY };
  for (let reading = 0; reading < clockReadings; reading += 1) {
    const before = performance.now();
    const beforeMs = Date.now();
    const [row] = await database.query<{ readonly now: number }>(
      `select date_part('epoch', clock_timestamp()) * 1000 as now`,
      [],
    );
    const tripMs = performance.now() - before;
    if (tripMs / 2 < best.errorMs)
      best = { offsetMs: (row?.now ?? 0) - (beforeMs + tripMs / 2), errorMs: tripMs / 2 };
  }
  return best;
}

function schemaMisfits(seen: readonly Seen[]): readonly Misfit[] {
  const newest = Math.max(...seen.map(({ version }) => version));
  return seen
    .filter(({ version }) => version < newest)
    .map(({ member, version }) => ({
      kind: 'schema',
      installation: member.installation.name,
      message: `its schema is at version ${version}, others are at ${newest}: run "pgqueue migrate" there`,
      mended: false,
    }));
}

/** Compares each clock with the middle one: so one that is wrong does not make all others look wrong. */
function clockMisfits(seen: readonly Seen[]): readonly Misfit[] {
  const sorted = seen.map(({ clock }) => clock).toSorted((a, b) => a.offsetMs - b.offsetMs);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  if (middle === undefined) return [];
  return seen.flatMap(({ member, clock }): readonly Misfit[] => {
    const apart = clock.offsetMs - middle.offsetMs;
    if (Math.abs(apart) - clock.errorMs - middle.errorMs <= clockMaxMs) return [];
    const seconds = (Math.abs(apart) / 1_000).toFixed(1);
    return [
      {
        kind: 'clock',
        installation: member.installation.name,
        message: `its clock is ${seconds} s ${apart > 0 ? 'ahead of' : 'behind'} the others: set it by NTP, on the server of the database`,
        mended: false,
      },
    ];
  });
}

function unknownHomes(seen: readonly Seen[], members: readonly Member[]): readonly Misfit[] {
  const numbers = new Set(members.map(({ installation }) => installation.number));
  return seen.flatMap(({ member, routes }): readonly Misfit[] => {
    const strange = new Set(
      routes.map((route) => route.installation).filter((number) => !numbers.has(number)),
    );
    if (strange.size === 0) return [];
    const named = [...strange].toSorted((a, b) => a - b).join(', ');
    return [
      {
        kind: 'routes',
        installation: member.installation.name,
        message: `it has routes to installation ${named}, which is not in the list: add it`,
        mended: false,
      },
    ];
  });
}

/** A move that has not gone on for longer has no mover. One that waits for jobs that run looks each second. */
const standsMs = 60_000;

/** Finds moves that nobody goes on with: the key is held in its new home until somebody does. */
function standingMoves(seen: readonly Seen[], members: readonly Member[]): readonly Misfit[] {
  const names = new Map(members.map(({ installation }) => [installation.number, installation.name]));
  const told = new Set<string>();
  return seen.flatMap(({ member, moves }) =>
    moves.flatMap((move): readonly Misfit[] => {
      const [to, own] = [
        move.side === 'in' ? member.installation.number : move.peer,
        member.installation.name,
      ];
      if (move.idleMs <= standsMs || told.has(move.key)) return [];
      told.add(move.key);
      const minutes = Math.round(move.idleMs / 60_000);
      const key = JSON.stringify(move.key);
      return [
        {
          kind: 'move',
          installation: own,
          message: `the move of key ${key} has stood still for ${minutes} min, and its jobs wait: run "pgqueue keys move" for it again, with --to ${names.get(to) ?? to}`,
          mended: false,
        },
      ];
    }),
  );
}

/** Finds copies of routes that are missing or old; with `mend`, writes them. */
async function routeMisfits(seen: readonly Seen[], mend: boolean): Promise<readonly Misfit[]> {
  const newest = newestOf(seen.flatMap(({ routes }) => routes));
  const misfits: Misfit[] = [];
  for (const { member, routes } of seen) {
    const own = new Map(routes.map((route) => [route.key, route]));
    const installation = member.installation.name;
    const behind = newest.filter((route) => (own.get(route.key)?.version ?? 0) < route.version);
    const other = newest.filter((route) => {
      const copy = own.get(route.key);
      return copy?.version === route.version && copy.installation !== route.installation;
    });
    if (other.length > 0)
      misfits.push({
        kind: 'routes',
        installation,
        message: `${shown(other)}: it names another home under the same version; move the key once more, to the home that is right`,
        mended: false,
      });
    if (behind.length === 0) continue;
    if (mend) for (const route of behind) await setRoute(member.database, route);
    misfits.push({
      kind: 'routes',
      installation,
      message: `${shown(behind)}: ${mend ? 'the copy is written now' : 'its copy is missing or old; give --mend to write it'}`,
      mended: mend,
    });
  }
  return misfits;
}

const shownMax = 3;

function shown(routes: readonly Route[]): string {
  const keys = routes.slice(0, shownMax).map(({ key }) => JSON.stringify(key));
  const more = routes.length > shownMax ? ` and ${routes.length - shownMax} more` : '';
  return `${routes.length === 1 ? 'route of key' : 'routes of keys'} ${keys.join(', ')}${more}`;
}

function factsOf(member: Member, seen: readonly Seen[]): CheckedInstallation {
  const { name, number, state = 'active' } = member.installation;
  const found = seen.find((one) => one.member === member);
  return {
    installation: name,
    number,
    state,
    schemaVersion: found?.version ?? null,
    clockMs: found === undefined ? null : Math.round(found.clock.offsetMs),
    clockErrorMs: found === undefined ? null : Math.ceil(found.clock.errorMs),
    routes: found?.routes.length ?? null,
  };
}
