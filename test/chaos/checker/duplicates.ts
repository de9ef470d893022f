// Finds jobs whose handlers began more than once. Each further start needs a reason that other processes have
// recorded.
import type { JobTrace, LeaseTrace, NodeTrace, Traces } from './traces.ts';

/**
 * Reason why a handler began again under another lease. After the first two the attempt before had ended:
 * they are no duplicates.
 */
export type Reason =
  | 'settled'
  | 'released'
  | 'expired'
  | 'reset'
  | 'node_ended'
  | 'node_silent'
  | 'database_crash'
  | 'clock';

export interface Duplicates {
  /** Number of further starts by reason, without those after a retry, a snooze or a release. */
  readonly explained: Readonly<Record<string, number>>;
  readonly unexplained: readonly string[];
  /** Jobs that began more often than their limit of crashes allows. */
  readonly beyondCrashLimit: readonly string[];
}

/**
 * Milliseconds within which an asynchronous commit reaches the disk. PostgreSQL needs at most three times
 * wal_writer_delay (0.2 s); the rest is for slow machines.
 */
const unflushedMs = 1_500;

export function duplicatesOf(traces: Traces): Duplicates {
  const explained: Record<string, number> = {};
  const unexplained: string[] = [];
  const beyondCrashLimit: string[] = [];
  for (const job of traces.jobs.values()) {
    const runs = runsOf(job);
    let crashes = 0;
    const reasons = runs.slice(1).map(({ lease, at }, index) => {
      const before = runs[index] ?? { lease, at };
      const reason = reasonOf(traces, before.lease, lease);
      if (reason === undefined) unexplained.push(sayAgain(job.id, before, { lease, at }));
      else if (counted.has(reason) && !forgotten(traces, before.lease, lease)) crashes += 1;
      return reason;
    });
    for (const reason of reasons) {
      if (reason === undefined || reason === 'settled' || reason === 'released') continue;
      explained[reason] = (explained[reason] ?? 0) + 1;
    }
    const max = traces.facts.crashMax?.[job.finals[0]?.task ?? ''] ?? Infinity;
    // one death of its node may have been charged to a suspect that ran beside it
    if (crashes > max) beyondCrashLimit.push(`${job.id}: began again after ${crashes} crashes, of ${max}`);
  }
  return { explained, unexplained, beyondCrashLimit };
}

function sayAgain(id: string, before: Run, again: Run): string {
  const laterMs = Math.round(again.at - before.at);
  const [first, second] = [before.lease, again.lease];
  return `${id}: began under ${first.token} on ${first.node} and, ${laterMs} ms later, under ${second.token} on ${second.node}`;
}

/**
 * Reasons that raise a job's count of crashes. `database_crash` is not among them: the server's crash may
 * have taken back the lease together with the count.
 */
const counted: ReadonlySet<Reason> = new Set(['expired', 'reset', 'node_ended', 'node_silent']);

interface Run {
  readonly lease: LeaseTrace;
  readonly at: number;
}

function runsOf({ leases }: JobTrace): readonly Run[] {
  if (leases.size < 2 && [...leases.values()].every(({ starts }) => starts.length < 2)) return [];
  return [...leases.values()]
    .flatMap((lease) => lease.starts.map((at) => ({ lease, at })))
    .toSorted((a, b) => a.lease.claim.to - b.lease.claim.to || a.at - b.at);
}

/**
 * Returns the reason, in either order of two claims that were under way at the same time. The claim answered
 * later may have been made earlier, by a node that was reset before it got the answer.
 */
function reasonOf(traces: Traces, lease: LeaseTrace, next: LeaseTrace): Reason | undefined {
  const reason = reasonFor(traces, lease, next);
  if (reason !== undefined || next.claim.from > lease.claim.to) return reason;
  return reasonFor(traces, next, lease);
}

/**
 * Returns the reason, or undefined if no recorded event explains the new start. Compares times such that no
 * possible reason is overlooked.
 */
function reasonFor(traces: Traces, lease: LeaseTrace, next: LeaseTrace): Reason | undefined {
  if (lease.token === next.token) return undefined;
  const spoiled = (what: string): boolean => spoiledBetween(traces, what, lease, next);
  const endedBefore = lease.settles.some(
    ({ verdict, outcome, to }) => terminal(verdict, outcome) && to < next.claim.from,
  );
  // a settlement is on the disk: only a failover to a server that was behind takes it back
  if (endedBefore) return spoiled('shipped-commits') ? 'database_crash' : undefined;
  if (lease.settles.some((settle) => mayContinue(settle) && settle.from <= next.claim.to)) return 'settled';
  const node = traces.nodes.get(lease.node);
  const between = (times: readonly number[] = []): boolean =>
    times.some((at) => at >= lease.claim.from && at <= next.claim.to);
  if (lease.released.some(({ from }) => from <= next.claim.to) || between(node?.left)) return 'released';
  const hits = (node?.resets ?? []).some(({ from, to }) => to >= lease.claim.from && from <= next.claim.to);
  if (hits) return 'reset';
  if (between(node?.ended)) return 'node_ended';
  if (next.claim.to >= endOf(lease)) return 'expired';
  if (wasSilent(node, { lease, next, lostAfterMs: traces.facts.lostAfterMs })) return 'node_silent';
  if (forgotten(traces, lease, next)) return 'database_crash';
  return spoiled('clock') ? 'clock' : undefined;
}

function spoiledBetween({ spoils }: Traces, what: string, lease: LeaseTrace, next: LeaseTrace): boolean {
  return spoils.some(
    (spoil) => spoil.what === what && spoil.to >= lease.claim.from && spoil.from <= next.claim.to,
  );
}

/** True if the server may have lost the claim in a crash or by a failover. */
function forgotten(traces: Traces, lease: LeaseTrace, next: LeaseTrace): boolean {
  const crashed = traces.spoils.some(
    ({ what, from, to }) =>
      what === 'recent-commits' &&
      lease.claim.to >= from - unflushedMs &&
      lease.claim.from <= to &&
      from <= next.claim.to,
  );
  return crashed || spoiledBetween(traces, 'shipped-commits', lease, next);
}

function terminal(verdict: string, outcome: string): boolean {
  if (verdict === 'repeated') return outcome === 'done' || outcome === 'cancelled' || outcome === 'dead';
  return verdict === 'done' || verdict === 'cancelled' || verdict === 'dead';
}

/** True if a retry or a snooze was accepted, or may have been. */
function mayContinue({ outcome, verdict, unknown }: LeaseTrace['settles'][number]): boolean {
  if (outcome !== 'retry' && outcome !== 'snooze') return false;
  return unknown || verdict === 'retry' || verdict === 'snooze' || verdict === 'repeated';
}

/**
 * Returns the earliest moment at which the lease can have run out. The last granted extension counts, even if
 * it shortens the lease.
 */
function endOf({ claim, leaseMs, extended }: LeaseTrace): number {
  const last = extended.at(-1);
  return last === undefined ? claim.from + leaseMs : last.from + last.ms;
}

/**
 * True if the node's answered heartbeats left a gap, between the two claims, in which it could be declared
 * lost.
 */
function wasSilent(
  node: NodeTrace | undefined,
  {
    lease,
    next,
    lostAfterMs,
  }: { readonly lease: LeaseTrace; readonly next: LeaseTrace; readonly lostAfterMs: number },
): boolean {
  const beats = (node?.beats ?? []).filter((at) => at <= next.claim.to);
  return beats.some((at, index) => {
    const following = beats[index + 1] ?? Infinity;
    return (
      following >= lease.claim.from && following - at >= lostAfterMs && at + lostAfterMs <= next.claim.to
    );
  });
}
