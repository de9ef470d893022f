import type { FairShareOptions, Json, Leading, Order, Preparation } from '@pgqueue/core';
import type { Shape, Uses } from '@pgqueue/core/internal';
import {
  aNumber,
  aText,
  decayOf,
  fairShareOver,
  optional,
  optionProblems,
  restoreOver,
  sumOfUses,
  throwProblems,
  usesNow,
} from '@pgqueue/core/internal';
import type { Installation } from '@pgqueue/postgres/internal';
import { installationsProblems, installationsRule, shareUses } from '@pgqueue/postgres/internal';
import type { Connections } from './connections.ts';
import { createConnections, namingProblems, nowOfLeader } from './connections.ts';

/** Options of {@link sharedFairShare}: those of `fairShare`, and where its shares are told. */
export interface SharedFairShareOptions extends Omit<FairShareOptions, 'halfLifeMs'> {
  /** All installations, the same list as for a router. */
  readonly installations: readonly Installation[];
  /** Name of the installation whose scheduler gets this order. */
  readonly self: string;
  /** Name of the installation through which all tell each other their use. The same everywhere. */
  readonly home: string;
  /**
   * Half-life of the use that counts, and of a share's lead over the others, in milliseconds, 1,000 or more. The same
   * everywhere. Default 60,000.
   */
  readonly halfLifeMs?: number;
}

const shape: Shape<Pick<SharedFairShareOptions, 'installations' | 'self' | 'home' | 'halfLifeMs'>> = {
  installations: installationsRule,
  self: aText(),
  home: aText(),
  halfLifeMs: optional(aNumber({ min: 1_000, max: 86_400_000 })),
};

/**
 * A fair order that also counts what its shares use in other installations, for the scheduler of one of them. Each second
 * the leader tells the home what its 1,000 most used shares have used of late, and is told about the others; their use is
 * charged here as if it had been had here. So a tenant whose keys are spread over installations has one fair part of them
 * all, within seconds: it is eventual, and no limit. Without an answer of the home it goes on by what it knows, which
 * decays. Shares have the same names, levels and weights everywhere. Opens no connection before it leads.
 * @example
 * policy({
 *   order: sharedFairShare({
 *     installations,
 *     self: 'eu-1',
 *     home: 'eu-1',
 *     charge: 'time',
 *     levels: [{ name: 'tenant', by: ({ key }) => key.split('/')[0] ?? '' }, { by: 'key' }],
 *   }),
 * });
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function sharedFairShare(options: SharedFairShareOptions): Order {
  const { installations, self, home, halfLifeMs = 60_000, ...rest } = { ...options };
  const given = { installations, self, home, halfLifeMs };
  const wrong = optionProblems(given, shape);
  throwProblems(
    'configuration',
    'the shared fair share',
    wrong.length > 0
      ? wrong
      : [...installationsProblems(installations), ...namingProblems(installations, { self, home })],
  );
  const order = rest.name ?? 'fair_share';
  const telling: Telling = { connections: createConnections(installations), order, self, home, halfLifeMs };
  return fairShareOver(
    { ...rest, halfLifeMs },
    { everyMs: 1_000, deadlineMs: 2_000, fetch: createExchange(telling) },
  );
}

interface Telling {
  readonly connections: Connections;
  /** Name of the order. */
  readonly order: string;
  readonly self: string;
  readonly home: string;
  readonly halfLifeMs: number;
}

/**
 * Creates the fetch of the order: tells the use here, and sums up that of the others. For a policy that dispatches nothing,
 * it tells nothing.
 */
function createExchange({ connections, order, self, home, halfLifeMs }: Telling): Preparation['fetch'] {
  return (signal, leading) =>
    connections.use<Json>(signal, async (memberOf) => {
      const [own, keeper] = [memberOf(self), memberOf(home)];
      const uses = leading && usesOf(leading, { nowMs: await nowOfLeader(own, leading), halfLifeMs });
      const others = await keeper.run(() =>
        shareUses(keeper.database, {
          order,
          installation: own.installation.number,
          epoch: leading?.epoch ?? 0,
          uses: uses === undefined ? null : JSON.stringify(uses),
        }),
      );
      return sumOfUses(
        others.map(({ uses: told, ageMs }) => ({
          uses: told,
          left: decayOf(0, { nowMs: ageMs, halfLifeMs }),
        })),
      );
    });
}

function usesOf({ state }: Leading, decay: { readonly nowMs: number; readonly halfLifeMs: number }): Uses {
  return usesNow(restoreOver((state as { readonly over?: unknown } | undefined)?.over), decay);
}
