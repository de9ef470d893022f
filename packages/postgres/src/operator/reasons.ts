import { unreachable } from '@pgqueue/core';
import type { Rate } from '@pgqueue/core';
import { aheadMax } from '../queries/explain.ts';

/** One thing that a job waits for, or that says what became of it. */
export type Reason =
  | { readonly kind: 'delayed'; readonly until: Date | null; readonly ms: number; readonly tries: number }
  | { readonly kind: 'queue_paused'; readonly queue: string }
  | { readonly kind: 'no_leader' }
  | {
      /** The leader did not answer: gates and order of its policy are missing from this explanation. */
      readonly kind: 'policy_unknown';
    }
  | { readonly kind: 'policy_failed'; readonly policy: string; readonly message: string }
  | {
      /** By a rule of the policy. */
      readonly kind: 'held';
      readonly gate: string;
      readonly message: string;
      /** When that may change by time alone; null: not by time. */
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
      /** A rate that is set: whether it holds the job only the leader knows. */
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
      /** Live nodes of the pool, none of which can run it. */
      readonly nodes: number;
    }
  | {
      readonly kind: 'no_free_slots';
      readonly pool: string;
      readonly slots: number;
      readonly running: number;
      readonly ready: number;
    }
  | {
      readonly kind: 'in_line';
      readonly key: string;
      readonly ahead: number;
      /** Of all keys, by the order of the policy; null: unknown. */
      readonly aheadInOrder: number | null;
    }
  | { readonly kind: 'ready'; readonly pool: string; readonly itemsAhead: number }
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

/** A reason in words. `age` writes a length of time. */
export function reasonText(reason: Reason, age: Age): string {
  switch (reason.kind) {
    case 'delayed':
      return `delayed${afterTries(reason.tries)}: due in ${age(reason.ms)}, at ${at(reason.until)}`;
    case 'queue_paused':
      return `queue ${reason.queue} is paused: "pgqueue queues resume ${reason.queue}"`;
    case 'no_leader':
      return 'no scheduler leads: start one with "pgqueue scheduler"';
    case 'policy_unknown':
      return "the leading scheduler did not answer: what its policy says, and a place in its order, can't be told";
    case 'policy_failed':
      return `policy ${reason.policy} failed when it was asked: ${reason.message}`;
    case 'held':
      return `held by ${reason.gate}: ${reason.message}${reason.until === null ? '' : `; that may change at ${at(reason.until)}`}`;
    case 'limit':
      return `${reason.limit} of queue ${reason.queue}: ${reason.inFlight} of ${reason.max} in flight${reason.limit === 'concurrency' ? '' : ` for key ${JSON.stringify(reason.key)}`}`;
    case 'rate':
      return `${reason.limit} of queue ${reason.queue} is ${rateText(reason.rate)}: only the leader knows whether it holds the job`;
    case 'no_capable_node':
      return reason.nodes === 0
        ? `no node lives in pool ${reason.pool}: start a worker`
        : `none of the ${reason.nodes} live nodes of pool ${reason.pool} runs task ${reason.task} with payloads of version ${reason.payloadVersion}`;
    case 'no_free_slots':
      return `no free slots: ${reason.running} jobs run in the ${reason.slots} slots of pool ${reason.pool} that can take it, ${reason.ready} more are ready`;
    case 'in_line':
      return inLineText(reason);
    case 'ready':
      return `scheduled: the next free node of pool ${reason.pool} takes it, after ${reason.itemsAhead} others`;
    case 'running':
    case 'node_silent':
    case 'cancel_asked':
      return runningText(reason, age);
    case 'expiring':
      return 'its expires_at has passed: the scheduler ends it as expired';
    case 'dead':
      return `dead (${reason.reason})${reason.error === null ? '' : `: ${reason.error}`}; "pgqueue dead redrive" puts it back`;
    case 'ended':
      return `${reason.outcome} at ${at(reason.at)}`;
    default:
      return unreachable(reason);
  }
}

/** `100/s burst 10`, in the unit of time that makes the number readable. */
export function rateText({ perSecond, burst }: Rate): string {
  const [count, unit] =
    perSecond >= 1
      ? [perSecond, 's']
      : perSecond * 60 >= 1
        ? [perSecond * 60, 'm']
        : [perSecond * 3_600, 'h'];
  return `${Number(count.toPrecision(6))}/${unit} burst ${Number(burst.toPrecision(6))}`;
}

function runningText(
  reason: Extract<Reason, { kind: 'running' | 'node_silent' | 'cancel_asked' }>,
  age: Age,
): string {
  switch (reason.kind) {
    case 'running': {
      const { leaseEndsInMs: ms } = reason;
      const lease = ms < 0 ? `ended ${age(-ms)} ago` : `ends in ${age(ms)}`;
      return `runs on ${reason.node} for ${age(reason.sinceMs)}; its lease ${lease}`;
    }
    case 'node_silent':
      return `node ${reason.node} gives no sign of life${reason.ms === null ? '' : ` for ${age(reason.ms)}`}: "pgqueue nodes reset ${reason.node}" takes its jobs back at once`;
    case 'cancel_asked':
      return 'its cancellation was asked for; its node is told with the next heartbeat';
    default:
      return unreachable(reason);
  }
}

function inLineText({ key, ahead, aheadInOrder }: Extract<Reason, { kind: 'in_line' }>): string {
  const own = ahead >= aheadMax ? `${aheadMax} or more` : String(ahead);
  const all = aheadInOrder === null ? '' : `; ${aheadInOrder} of all keys, as far as the scheduler looks`;
  return `waits for its turn: ${own} jobs of key ${JSON.stringify(key)} come first${all}`;
}

function afterTries(tries: number): string {
  return tries > 0 ? ` after ${tries} failed ${tries === 1 ? 'try' : 'tries'}` : '';
}

function at(date: Date | null): string {
  return date?.toISOString() ?? 'an unknown time';
}
