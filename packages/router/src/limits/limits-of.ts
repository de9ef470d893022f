import { PgQueueError } from '@pgqueue/core';
import type { Operator, SharedLimit, SharedPart } from '@pgqueue/postgres';
import type { Member } from '../installations/member.ts';

/** Part of one installation in a shared limit. */
export interface LimitPart extends Omit<SharedPart, 'installation'> {
  /** Name of the installation; its number, if the list has none of that number. */
  readonly installation: string;
  readonly number: number;
}

/** A limit over several installations, as its home knows it. */
export interface LimitStatus extends Omit<SharedLimit, 'parts'> {
  /** Name of the installation that keeps it. */
  readonly home: string;
  readonly parts: readonly LimitPart[];
}

/** Limits over several installations. */
export interface RouterLimits {
  /** Lists them, by name. Those of an installation that does not answer are missing. */
  readonly list: () => Promise<readonly LimitStatus[]>;
  /**
   * Gives the part of an installation back to the others, because it is gone: nothing of the limit runs there, and its
   * schedulers are stopped. Resolves to what was reserved for it. If it comes back, its jobs in flight count first.
   * @throws {PgQueueError} `not_found`; `configuration`: it leased its part less than a minute ago, or the limit has
   * two homes; `installation`
   */
  readonly forfeit: (part: {
    readonly limit: string;
    /** Name or number. */
    readonly installation: string | number;
  }) => Promise<{ readonly reserved: number }>;
  /**
   * Removes a limit that no policy uses any more, so that it may get another home or kind.
   * @param options `home`: name of the installation to remove it in; needed if it has two homes
   * @throws {PgQueueError} as `forfeit`
   */
  readonly remove: (limit: string, options?: { readonly home?: string }) => Promise<void>;
}

/** Names the holders of limits that an installation keeps. */
export function limitsOf(
  home: string,
  limits: readonly SharedLimit[],
  members: readonly Member[],
): readonly LimitStatus[] {
  const names = new Map(members.map(({ installation: { number, name } }) => [number, name]));
  return limits.map((limit) => ({
    ...limit,
    home,
    parts: limit.parts.map((part) => ({
      ...part,
      number: part.installation,
      installation: names.get(part.installation) ?? String(part.installation),
    })),
  }));
}

/** @param list of all installations that answer; `operatorOf`: of the one with that name */
export function createRouterLimits(
  list: () => Promise<readonly LimitStatus[]>,
  operatorOf: (home: string) => Operator,
): RouterLimits {
  const kept = async (limit: string, home?: string): Promise<LimitStatus> => {
    const all = (await list()).filter((one) => one.name === limit);
    const [found, other] = home === undefined ? all : all.filter((one) => one.home === home);
    if (found === undefined)
      throw new PgQueueError(
        'not_found',
        `no installation that answers keeps a shared limit ${JSON.stringify(limit)}: "installations limits" lists them`,
      );
    if (other === undefined) return found;
    throw new PgQueueError(
      'configuration',
      `shared limit ${limit} has two homes, ${found.home} and ${other.home}: remove it in the one that is wrong`,
    );
  };
  return {
    list,
    forfeit: async ({ limit, installation }) => {
      const { home, parts } = await kept(limit);
      const part = parts.find((one) => one.installation === installation || one.number === installation);
      if (part === undefined)
        throw new PgQueueError(
          'not_found',
          `installation ${installation} has no part of shared limit ${limit}`,
        );
      return operatorOf(home).limits.forfeit({ limit, installation: part.number });
    },
    remove: async (limit, { home } = {}) => {
      const found = await kept(limit, home);
      await operatorOf(found.home).limits.remove(limit);
    },
  };
}
