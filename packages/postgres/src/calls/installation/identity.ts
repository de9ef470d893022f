import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';

/** Number and name of an installation among those that a router knows. */
export interface InstallationIdentity {
  /** 0 to 1023. */
  readonly number: number;
  readonly name: string;
}

/** Reads the number and the name of an installation; undefined: it stands alone. Any role may. */
export async function readIdentity({ query, schema }: Target): Promise<InstallationIdentity | undefined> {
  const [found] = await query<InstallationIdentity>(
    `select number::integer as number, name from ${schema}.installation`,
    [],
  );
  return found;
}

/** Gives an installation its number and its name. The SQL function says when it refuses. */
export async function initInstallation(
  target: Target,
  { number, name }: InstallationIdentity,
): Promise<'created' | 'changed' | 'unchanged'> {
  const values = [String(number), name];
  return (await ask(target, 'init_installation($1::text::integer, $2::text)', values)) ?? 'unchanged';
}

/** Home of a key that was moved. */
export interface Route {
  readonly key: string;
  /** Number of its home. */
  readonly installation: number;
  /** Greater with each change of the key. */
  readonly version: number;
  /** Number of the installation that still has jobs of the key; null: it has none, and the key is settled. */
  readonly movingFrom: number | null;
}

/** Routes that an installation has written since a count of changes, and the count up to which they go. */
export interface RouteChanges {
  readonly routes: readonly Route[];
  readonly changes: number;
}

const routesMax = 10_000;

/**
 * Reads the routes that an installation has written after a count of changes: up to 10,000 of them, so repeat it until
 * there are none. Served by `route_change`. Any role may.
 */
export async function readRoutes({ query, schema }: Target, after: number): Promise<RouteChanges> {
  const rows = await query<Route & { readonly change: number }>(
    `select key, installation::integer as installation, version::float8 as version,
            moving_from::integer as "movingFrom", change::float8 as change
     from ${schema}.route where change > $1::text::bigint order by change limit ${routesMax}`,
    [String(after)],
  );
  return {
    routes: rows.map(({ change: _change, ...route }) => route),
    changes: rows.at(-1)?.change ?? after,
  };
}

/** Reads an installation's copy of the route of a key; undefined: it has none. Any role may. */
export async function readRoute({ query, schema }: Target, key: string): Promise<Route | undefined> {
  const [route] = await query<Route>(
    `select key, installation::integer as installation, version::float8 as version, moving_from::integer as "movingFrom"
     from ${schema}.route where key = $1::text`,
    [key],
  );
  return route;
}

/**
 * Writes an installation's copy of a route, unless it has the same version or a newer one; resolves to whether it
 * wrote. Waits for enqueues of the key that are under way there. The rights of an operator are enough.
 */
export async function setRoute(
  { query, schema }: Target,
  { key, installation, version, movingFrom }: Route,
): Promise<boolean> {
  const [answer] = await query<{ readonly wrote: boolean }>(
    `select ${schema}.set_route($1::text, $2::text::integer, $3::text::bigint, $4::text::integer) as wrote`,
    [key, String(installation), String(version), movingFrom === null ? null : String(movingFrom)],
  );
  return answer?.wrote ?? false;
}
