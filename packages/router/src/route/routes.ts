import { PgQueueError } from '@pgqueue/core';
import { homeOf } from '@pgqueue/core/internal';
import type { Route } from '@pgqueue/postgres/internal';
import { readRoutes } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';

/** Homes of keys, as a router knows them: the hash, and the routes of keys that were moved. */
export interface Routes {
  /**
   * Returns the home of a key.
   * @throws {PgQueueError} `configuration`: a route names an installation that this router does not know
   */
  readonly home: (key: string) => Member;
  /** Returns the route of a key; undefined: it has none. */
  readonly of: (key: string) => Route | undefined;
  /** Version of the route of a key; 0: it has none. */
  readonly version: (key: string) => number;
  readonly learn: (route: Route) => void;
  /** Reads the routes that an installation has written since the last time. */
  readonly read: (member: Member) => Promise<void>;
  /** Reads those of all installations every few seconds from now on; only once. */
  readonly poll: () => void;
  readonly stop: () => Promise<void>;
}

/** @param pollMs milliseconds between two readings */
export function createRoutes(members: readonly Member[], pollMs: number): Routes {
  const byNumber = new Map(members.map((member) => [member.installation.number, member]));
  const active = members
    .filter(({ installation }) => installation.state !== 'draining')
    .map(({ installation }) => installation.number);
  const routes = new Map<string, Route>();
  const changes = new Map<Member, number>();
  const reading = new Map<Member, Promise<void>>();
  const timers = new Map<Member, NodeJS.Timeout>();
  let stopped = false;

  const learn = (route: Route): void => {
    if ((routes.get(route.key)?.version ?? 0) < route.version) routes.set(route.key, route);
  };

  const readAll = async (member: Member): Promise<void> => {
    await member.run(async () => {
      for (;;) {
        const before = changes.get(member) ?? 0;
        const found = await readRoutes(member.database, before);
        for (const route of found.routes) learn(route);
        if (found.changes === before) return;
        changes.set(member, found.changes);
      }
    });
  };

  /** Callers share a reading that is under way. It may miss what they were told of: so they `learn` that. */
  const read = (member: Member): Promise<void> => {
    const under = reading.get(member);
    if (under !== undefined) return under;
    const started = readAll(member).finally(() => reading.delete(member));
    reading.set(member, started);
    return started;
  };

  /** Each on its own: one that does not answer delays no news of the others. */
  const readLater = (member: Member, ms: number): void => {
    const again = (): void => {
      if (!stopped) readLater(member, pollMs);
    };
    timers.set(member, setTimeout(() => void read(member).then(again, again), ms).unref());
  };

  return {
    home: (key) => {
      const routed = routes.get(key)?.installation;
      const number = routed ?? homeOf(key, active);
      const home = byNumber.get(number);
      if (home !== undefined) return home;
      throw new PgQueueError(
        'configuration',
        `key ${JSON.stringify(key)} has its home in installation ${number}, which this router does not know: add it to the installations`,
        { data: { key, number } },
      );
    },
    of: (key) => routes.get(key),
    version: (key) => routes.get(key)?.version ?? 0,
    learn,
    read,
    poll: () => {
      if (timers.size > 0 || stopped || members.length === 1) return;
      for (const member of members) readLater(member, 0);
    },
    stop: async () => {
      stopped = true;
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.allSettled(reading.values());
    },
  };
}

/** Returns, of copies of routes from several installations, the newest of each key. */
export function newestOf(routes: readonly Route[]): readonly Route[] {
  const newest = new Map<string, Route>();
  for (const route of routes)
    if ((newest.get(route.key)?.version ?? 0) < route.version) newest.set(route.key, route);
  return [...newest.values()];
}

/** Reads all routes that an installation has. */
export async function allRoutes({ database }: Member): Promise<readonly Route[]> {
  const all: Route[] = [];
  for (let after = 0; ;) {
    const { routes, changes } = await readRoutes(database, after);
    all.push(...routes);
    if (changes === after) return all;
    after = changes;
  }
}
