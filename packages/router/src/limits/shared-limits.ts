import type { Gate, JobFacts } from '@pgqueue/core';
import type { Rule, Shape, SharedRules } from '@pgqueue/core/internal';
import {
  aFlag,
  aFunction,
  aNumber,
  anObject,
  aText,
  isRecord,
  optional,
  optionProblems,
  sharedConcurrency,
  sharedRate,
  throwProblems,
  valueProblems,
} from '@pgqueue/core/internal';
import type { Installation } from '@pgqueue/postgres/internal';
import { aLimitName, installationsProblems, installationsRule } from '@pgqueue/postgres/internal';
import { createConnections, namingProblems } from './connections.ts';
import type { LimitSize } from './lease.ts';
import { createLeasing, leaseMs, renewMs } from './lease.ts';

/** A limit over all installations: of jobs in flight, or of dispatches over time. */
export interface SharedLimitOptions {
  /** Most jobs in flight over all installations, a whole number, 0 or more. Give this or `rate`. */
  readonly concurrency?: number;
  /**
   * Dispatches over all installations: at most `perSecond × w + burst` in every window of w seconds. `burst` is a
   * whole number, divided between the installations, so it should be several times their number.
   */
  readonly rate?: { readonly perSecond: number; readonly burst: number };
  /** Tells the jobs that the limit is for, by facts that stay the same while a job is in flight. Default: all jobs. */
  readonly when?: (job: JobFacts) => boolean;
  /** Promises that `when` depends on the job's queue and key only: plans are then faster. */
  readonly lane?: boolean;
  /** Name of the installation that keeps this limit. Default: `home` of all. */
  readonly home?: string;
}

/** Options of {@link sharedLimits}. */
export interface SharedLimitsOptions {
  /** All installations, the same list as for a router. */
  readonly installations: readonly Installation[];
  /** Name of the installation whose scheduler gets these gates. */
  readonly self: string;
  /** Name of the installation that keeps the limits, unless one names another. The same everywhere. */
  readonly home?: string;
  /** Limits by name, 1 to 100 characters. Give all installations the same. */
  readonly limits: Readonly<Record<string, SharedLimitOptions>>;
}

const aSize = aNumber({ min: 0, max: 2_147_483_647, whole: true });

const limitShape: Shape<SharedLimitOptions> = {
  concurrency: optional(aSize),
  rate: optional(anObject({ perSecond: aNumber({ min: 0, max: 1_000_000_000 }), burst: aSize })),
  when: optional(aFunction),
  lane: optional(aFlag),
  home: optional(aText()),
};

const limitsRule: Rule = {
  expected: "limits by name: { 'vendor-api': { concurrency: 50 } }",
  judge: isRecord,
};

const shape: Shape<SharedLimitsOptions> = {
  installations: installationsRule,
  self: aText(),
  home: optional(aText()),
  limits: limitsRule,
};

/**
 * Limits over several installations, as gates for `policy({ gates })` of the scheduler of one of them. Each limit has a
 * home, an installation that leases the parts. The leader asks for its part every second, for five; a limit gives more
 * to an installation whose jobs it holds. So the parts never add up to more than the limit, whatever happens to
 * leaders, networks and clocks. An installation that can't reach the home of a limit goes on with its part until the
 * lease ends; then it holds the jobs of the limit, and `explain` says why. Opens no connection before it leads.
 * @example
 * policy({
 *   gates: sharedLimits({
 *     installations,
 *     self: 'eu-1',
 *     home: 'eu-1',
 *     limits: { 'vendor-api': { concurrency: 50, when: ({ queue }) => queue === 'calls' } },
 *   }),
 * });
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function sharedLimits(options: SharedLimitsOptions): readonly Gate[] {
  const wrong = optionProblems(options, shape);
  throwProblems('configuration', 'the shared limits', wrong.length > 0 ? wrong : limitProblems(options));
  const connections = createConnections(options.installations);
  return Object.entries(options.limits).map(([name, limit]): Gate => {
    const home = limit.home ?? options.home ?? '';
    const size = sizeOf(limit);
    const lease = createLeasing({ connections, name, home, self: options.self, size });
    const rules: SharedRules = {
      name,
      home,
      when: limit.when,
      lane: limit.lane,
      prepare: { everyMs: renewMs, deadlineMs: 2_000, validMs: leaseMs - marginMs, fetch: lease },
    };
    return size.perSecond === null ? sharedConcurrency(rules) : sharedRate(rules);
  });
}

/** A lease ends earlier here than in its home, in milliseconds: clocks run at slightly different speeds. */
const marginMs = 500;

function sizeOf({ concurrency = 0, rate }: SharedLimitOptions): LimitSize {
  return rate === undefined
    ? { size: concurrency, perSecond: null }
    : { size: rate.burst, perSecond: rate.perSecond };
}

/** Problems that the rules of single options can't express. */
function limitProblems({ installations, self, home, limits }: SharedLimitsOptions): readonly string[] {
  return [
    ...installationsProblems(installations),
    ...namingProblems(installations, { self, home }),
    ...Object.entries(limits).flatMap(([name, limit]) => {
      const at = `limits[${JSON.stringify(name)}]`;
      const wrong = [
        ...valueProblems(aLimitName, name, `the name ${JSON.stringify(name)}`),
        ...valueProblems(anObject(limitShape), limit, at),
      ];
      if (wrong.length > 0) return wrong;
      return [
        ...((limit.concurrency === undefined) === (limit.rate === undefined)
          ? [`${at}: give concurrency or rate, one of them`]
          : []),
        ...namingProblems(installations, { [`${at}.home`]: limit.home }),
        ...(limit.home === undefined && home === undefined
          ? [`${at}.home must be given, or home for all: the name of the installation that keeps the limit`]
          : []),
      ];
    }),
  ];
}
