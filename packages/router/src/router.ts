import type { Codec, Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import {
  aCodec,
  aFlag,
  aFunction,
  aNumber,
  anything,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Actor, Operator } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import type { Producer, TraceSource } from '@pgqueue/producer';
import type { Installation } from '@pgqueue/postgres/internal';
import { anActor, checkInstallations } from '@pgqueue/postgres/internal';
import type { Member } from './installations/member.ts';
import { createMember } from './installations/member.ts';
import { operateKeys } from './move/keys.ts';
import type { RouterOperator } from './operator/operator.ts';
import { createRouterOperator } from './operator/operator.ts';
import { createProducers } from './producer/members.ts';
import type { RouterProducer } from './producer/producer.ts';
import { createRouterProducer } from './producer/producer.ts';
import { createSpread } from './producer/spread.ts';
import type { RouterPuller, RouterPullerOptions } from './puller/puller.ts';
import { createRouterPuller } from './puller/puller.ts';
import { createRoutes } from './route/routes.ts';
import type { RouterWorker, RouterWorkerOptions } from './worker/worker.ts';
import { createRouterWorker } from './worker/worker.ts';

/** Options of {@link createRouter}. */
export interface RouterOptions {
  /** All installations, 1 to 1,024, in any order. Every router is given the same. */
  readonly installations: readonly Installation[];
  /** Milliseconds between two readings of the routes, 100 to 60,000. Default 3000. */
  readonly pollMs?: number;
  /** As of a producer. */
  readonly notify?: boolean;
  /** As of a producer. */
  readonly listen?: boolean;
  /** Called for the events of all its producers. */
  readonly observe?: Observer;
  /** As of a producer. */
  readonly trace?: TraceSource;
  /** Codec of all its producers, operators, workers and pullers, as `encrypted` returns it. Default: none. */
  readonly codec?: Codec;
  /** Person or program that acts through `operator`, for the table `audit` of each installation. Default: nothing is noted. */
  readonly actor?: Actor;
}

/** Several installations as one. */
export interface Router {
  readonly producer: RouterProducer;
  readonly operator: RouterOperator;
  /**
   * Creates a worker of all installations, with slots that they share. Stop it before the router is closed.
   * @throws {PgQueueError} `configuration`, with all that is wrong
   */
  worker(options: RouterWorkerOptions): RouterWorker;
  /**
   * Creates a puller of all installations. Close it before the router is closed.
   * @throws {PgQueueError} `configuration`, with all that is wrong
   */
  puller(options: RouterPullerOptions): RouterPuller;
  /**
   * The plain producer of one installation, by its name or number: for enqueues within a transaction of its database. It
   * enqueues there, also jobs of keys that have their home elsewhere. The router closes it.
   * @throws {PgQueueError} `configuration`: there is no such installation
   */
  at(installation: string | number): Producer;
  /** Returns the installation that is the home of a key, by what this router knows now. */
  homeOf(key: string): Installation;
  /**
   * Checks that each installation can be reached, and has the number and the name of the list. The same check comes
   * before the first call to each.
   * @throws {PgQueueError} `installation`, `configuration`: names the first that can't or has not
   */
  check(): Promise<void>;
  /** Closes all producers and connections. May be called again. */
  close(): Promise<void>;
}

const shape: Shape<RouterOptions> = {
  installations: anything,
  pollMs: optional(aNumber({ min: 100, max: 60_000, whole: true })),
  notify: optional(aFlag),
  listen: optional(aFlag),
  observe: optional(aFunction),
  trace: optional(aFunction),
  codec: optional(aCodec),
  actor: optional(anActor),
};

/**
 * Creates a router. Opens no connection yet. Before the first call to an installation it checks that its database has
 * the number and the name of the list; with a single installation, one without a number will do.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createRouter(options: RouterOptions): Router {
  throwProblems('configuration', 'the router', optionProblems(options, shape));
  const { installations, pollMs = 3_000, actor, ...shared } = options;
  const given = checkInstallations(installations);
  const alone = given.length === 1;
  const members = given.map((installation) => createMember(installation, { alone }));
  const routes = createRoutes(members, pollMs);
  const producers = createProducers(shared, routes, { alone });
  let closing: Promise<void> | undefined;
  const use = (): void => {
    if (closing !== undefined) throw new PgQueueError('closed', 'this router was closed');
    routes.poll();
  };
  const active = members.filter(({ installation }) => installation.state !== 'draining');
  const { codec } = options;
  const operators = createOperators({ actor, codec });
  const close = async (): Promise<void> => {
    await Promise.all([producers.close(), operators.close(), routes.stop()]);
    await Promise.all(members.map((member) => member.close()));
  };
  return {
    producer: createRouterProducer({ members, routes, producers, use, spread: createSpread(active, routes) }),
    operator: createRouterOperator({
      members,
      operatorOf: operators.of,
      use,
      keys: operateKeys({ members, routes, actor, use, memberOf: (wanted) => memberOf(members, wanted) }),
    }),
    worker: (given) => {
      use();
      return createRouterWorker(members, codec === undefined ? given : { codec, ...given });
    },
    puller: (given) => {
      use();
      return createRouterPuller(members, given, codec);
    },
    at: (installation) => {
      use();
      return producers.plain(memberOf(members, installation));
    },
    homeOf: (key) => routes.home(key).installation,
    check: async () => {
      use();
      await Promise.all(members.map((member) => member.identified()));
    },
    close: () => (closing ??= close()),
  };
}

interface Operators {
  readonly of: (member: Member) => Operator;
  readonly close: () => Promise<void>;
}

/** Operators of the installations, each made when it is first needed. */
function createOperators({
  actor,
  codec,
}: {
  readonly actor: Actor | undefined;
  readonly codec: Codec | undefined;
}): Operators {
  const made = new Map<Member, Operator>();
  let closed = false;
  return {
    of: (member) => {
      if (closed) throw new PgQueueError('closed', 'this router was closed');
      const { connectionString, schema } = member.installation;
      const operator =
        made.get(member) ??
        createOperator({
          connectionString,
          connectionsMax: 4,
          queryTimeoutMs: 120_000,
          ...(schema === undefined ? {} : { schema }),
          ...(actor === undefined ? {} : { actor }),
          ...(codec === undefined ? {} : { codec }),
        });
      made.set(member, operator);
      return operator;
    },
    close: async () => {
      closed = true;
      await Promise.all([...made.values()].map((operator) => operator.close()));
    },
  };
}

/** @throws {PgQueueError} `configuration` */
function memberOf(members: readonly Member[], wanted: string | number): Member {
  const found = members.find(
    ({ installation }) => installation.name === wanted || installation.number === wanted,
  );
  if (found !== undefined) return found;
  const names = members.map(({ installation }) => installation.name).join(', ');
  throw new PgQueueError(
    'configuration',
    `there is no installation ${JSON.stringify(wanted)}: there are ${names}`,
  );
}
