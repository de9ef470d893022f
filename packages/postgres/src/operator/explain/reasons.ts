import { readableRate, unreachable } from '@pgqueue/core/internal';
import type { Rate } from '@pgqueue/core';
import { aheadMax } from '../../reads/explain.ts';
import type { ReadOnly } from '../../reads/read-only.ts';
import { readOnlyText } from '../../reads/read-only.ts';
import type { StepWait } from './flow-waits.ts';
import { waitTexts } from './flow-waits.ts';

/** One reason why a job waits, or its outcome. */
export type Reason =
  | { readonly kind: 'delayed'; readonly until: Date | null; readonly ms: number; readonly tries: number }
  | {
      /** Its handler waits, without a slot, for jobs or a signal: until a flow of its own ends. */
      readonly kind: 'suspended';
      /** Id and name of that flow. */
      readonly flow: string;
      readonly name: string;
      /** Everything that the flow's open steps wait for. */
      readonly waits: readonly StepWait[];
    }
  | {
      /** Its database takes no writes, so nothing starts or ends. */
      readonly kind: 'read_only';
      readonly why: ReadOnly;
    }
  | { readonly kind: 'paused_queue'; readonly queue: string }
  | { readonly kind: 'no_leader' }
  | {
      /**
       * The leader did not answer: the gates and the order of its policy are missing from this explanation.
       */
      readonly kind: 'policy_unknown';
    }
  | { readonly kind: 'policy_failed'; readonly policy: string; readonly message: string }
  | {
      /** Held by a rule of the policy. */
      readonly kind: 'held';
      readonly gate: string;
      readonly message: string;
      /** Time at which the hold may change by time alone; null: not by time. */
      readonly until: Date | null;
    }
  | {
      /** A limit of queue_config that is reached, counted without the leader. */
      readonly kind: 'limit';
      readonly limit: 'concurrency' | 'key_concurrency';
      readonly queue: string;
      readonly key: string;
      readonly inFlight: number;
      readonly max: number;
    }
  | {
      /** A configured rate. Only the leader knows whether it holds the job. */
      readonly kind: 'rate';
      readonly limit: 'rate' | 'key_rate';
      readonly queue: string;
      readonly rate: Rate;
    }
  | {
      readonly kind: 'no_capable_node';
      readonly pool: string;
      readonly task: string;
      readonly payloadVersion: number;
      /** Live nodes of the pool; none of them can run the job. */
      readonly nodes: number;
    }
  | {
      readonly kind: 'no_free_slot';
      readonly pool: string;
      readonly slots: number;
      readonly running: number;
      readonly ready: number;
    }
  | {
      readonly kind: 'in_line';
      readonly key: string;
      readonly ahead: number;
      /** Jobs of all keys that come first, by the policy's order; null: unknown. */
      readonly aheadInOrder: number | null;
    }
  | {
      readonly kind: 'ready';
      readonly pool: string;
      readonly itemsAhead: number;
      /**
       * Was lost with its node before. A node begins with one such job, and takes more of them second by
       * second.
       */
      readonly suspect: boolean;
      /** Its next crash would be its last: it runs beside no other suspect. */
      readonly lastLife: boolean;
    }
  | {
      readonly kind: 'running';
      readonly node: string;
      readonly sinceMs: number;
      readonly leaseEndsInMs: number;
    }
  | { readonly kind: 'node_silent'; readonly node: string; readonly ms: number | null }
  | { readonly kind: 'cancel_asked' }
  | { readonly kind: 'expiring' }
  | { readonly kind: 'dead'; readonly reason: string; readonly error: string | null }
  | { readonly kind: 'ended'; readonly outcome: string; readonly at: Date | null };

type Age = (ms: number) => string;

/** Remedies for reasons, in words that fit the place where they are shown. */
export interface Remedies {
  readonly dead: string;
  readonly pausedQueue: (queue: string) => string;
  readonly silentNode: (node: string) => string;
}

const commands: Remedies = {
  dead: '"pgqueue dead redrive" puts it back',
  pausedQueue: (queue) => `"pgqueue queues resume ${queue}"`,
  silentNode: (node) => `"pgqueue nodes reset ${node}" takes its jobs back at once`,
};

/**
 * Describes a reason in words. `age` formats a duration in milliseconds. Remedies are commands, unless others
 * are given.
 */
export function reasonText(reason: Reason, age: Age, remedies: Remedies = commands): string {
  switch (reason.kind) {
    case 'delayed':
      return `delayed${afterTries(reason.tries)}: due in ${age(reason.ms)}, at ${at(reason.until)}`;
    case 'suspended':
      return `suspended until flow ${reason.flow} (${reason.name}) ends: ${waitTexts(reason.waits, age)}`;
    case 'read_only':
      return readOnlyText(reason.why);
    case 'paused_queue':
      return `queue ${reason.queue} is paused: ${remedies.pausedQueue(reason.queue)}`;
    case 'no_leader':
      return 'no scheduler leads: start one with "pgqueue scheduler"';
    case 'policy_unknown':
      return "the leading scheduler did not answer: what its policy says, and a place in its order, can't be told";
    case 'policy_failed':
      return `policy ${reason.policy} failed when it was asked: ${reason.message}`;
    case 'held':
      return `held by ${reason.gate}: ${reason.message}${reason.until === null ? '' : `; that may change at ${at(reason.until)}`}`;
    case 'limit':
      return limitText(reason);
    case 'rate':
      return `${reason.limit} of queue ${reason.queue} is ${rateText(reason.rate)}: only the leader knows whether it holds the job`;
    case 'no_capable_node':
      return noCapableNodeText(reason);
    case 'no_free_slot':
      return noFreeSlotText(reason);
    case 'in_line':
      return inLineText(reason);
    case 'ready':
      return readyText(reason);
    case 'running':
    case 'node_silent':
    case 'cancel_asked':
      return runningText(reason, age, remedies);
    case 'expiring':
      return 'its expires_at has passed: the scheduler ends it as expired';
    case 'dead':
      return `dead (${reason.reason})${reason.error === null ? '' : `: ${reason.error}`}; ${remedies.dead}`;
    case 'ended':
      return `${reason.outcome} at ${at(reason.at)}`;
    default:
      return unreachable(reason);
  }
}

/** Formats a rate: `100/s burst 10`, in the unit of time that makes the number readable. */
export function rateText({ perSecond, burst }: Rate): string {
  const { count, unit } = readableRate(perSecond);
  return `${Number(count.toPrecision(6))}/${unit} burst ${Number(burst.toPrecision(6))}`;
}

function runningText(
  reason: Extract<Reason, { kind: 'running' | 'node_silent' | 'cancel_asked' }>,
  age: Age,
  { silentNode }: Remedies,
): string {
  switch (reason.kind) {
    case 'running': {
      const { leaseEndsInMs: ms } = reason;
      const lease = ms < 0 ? `ended ${age(-ms)} ago` : `ends in ${age(ms)}`;
      return `runs on ${reason.node} for ${age(reason.sinceMs)}; its lease ${lease}`;
    }
    case 'node_silent':
      return `node ${reason.node} gives no sign of life${reason.ms === null ? '' : ` for ${age(reason.ms)}`}: ${silentNode(reason.node)}`;
    case 'cancel_asked':
      return 'its cancellation was asked for; its node is told with the next heartbeat';
    default:
      return unreachable(reason);
  }
}

function readyText({ pool, itemsAhead, suspect, lastLife }: Extract<Reason, { kind: 'ready' }>): string {
  if (!suspect)
    return `scheduled: the next free node of pool ${pool} takes it, after ${many(itemsAhead, 'other')}`;
  const lost = 'scheduled: it was lost with its node before';
  return lastLife
    ? `${lost}, and its next crash would be its last: it waits for a node of pool ${pool} that runs no other such job; start another worker`
    : `${lost}, and nodes begin such jobs one by one: the next node of pool ${pool} with room takes it`;
}

/** Reports whether a job's next crash would be its last. */
export function isLastLife(job: { readonly crashes: number; readonly maxCrashes: number | null }): boolean {
  return job.maxCrashes !== null && job.crashes + 1 >= job.maxCrashes;
}

function inLineText({ key, ahead, aheadInOrder }: Extract<Reason, { kind: 'in_line' }>): string {
  const all = aheadInOrder === null ? '' : `; ${aheadInOrder} of all keys, as far as the scheduler looks`;
  if (ahead === 0 && (aheadInOrder ?? 0) === 0) {
    const others = aheadInOrder === null ? '' : ', and of all keys, as far as the scheduler looks';
    return `is the first of ${keyText(key)}${others}`;
  }
  const own = ahead >= aheadMax ? `${aheadMax} or more jobs` : many(ahead, 'job');
  return `waits for its turn: ${own} of ${keyText(key)} ${ahead === 1 ? 'comes' : 'come'} first${all}`;
}

type Incapable = Extract<Reason, { kind: 'no_capable_node' }>;

function noCapableNodeText({ pool, task, payloadVersion, nodes }: Incapable): string {
  if (nodes === 0) return `no node lives in pool ${pool}: start a worker`;
  const none = nodes === 1 ? 'the one live node does not run' : `none of the ${nodes} live nodes runs`;
  return `in pool ${pool}, ${none} task ${task} with payloads of version ${payloadVersion}`;
}

type Full = Extract<Reason, { kind: 'no_free_slot' }>;

function noFreeSlotText({ pool, slots, running, ready }: Full): string {
  const [run, are] = [running === 1 ? 'runs' : 'run', ready === 1 ? 'is' : 'are'];
  const taken = `${many(running, 'job')} ${run} in the ${many(slots, 'slot')} of pool ${pool} that can take it`;
  return `no free slot: ${taken}, ${ready} more ${are} ready`;
}

function limitText({ limit, queue, key, inFlight, max }: Extract<Reason, { kind: 'limit' }>): string {
  const whose = limit === 'concurrency' ? '' : ` for ${keyText(key)}`;
  const never = max === 0 ? '; nothing goes until that limit is raised' : '';
  return `${limit} of queue ${queue}: ${inFlight} of ${max} in flight${whose}${never}`;
}

/** Formats a key: `key "acme"`, or `the empty key`. */
export function keyText(key: string): string {
  return key === '' ? 'the empty key' : `key ${JSON.stringify(key)}`;
}

/** Formats a count: `1 job`, `2 jobs`. */
function many(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? '' : 's'}`;
}

function afterTries(tries: number): string {
  return tries > 0 ? ` after ${tries} failed ${tries === 1 ? 'try' : 'tries'}` : '';
}

/** Formats a time. The driver returns an infinite one as a number. */
function at(date: Date | number | null): string {
  return date instanceof Date && Number.isFinite(date.getTime()) ? date.toISOString() : 'an unknown time';
}
