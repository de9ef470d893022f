import { own } from '@pgqueue/core';
import type { Database } from '../database.ts';
import { listNodes } from '../queries/nodes.ts';
import type { QueueInfo } from '../queries/queues.ts';
import { listQueues } from '../queries/queues.ts';
import type { StoredReport } from '../queries/report.ts';
import { readReport } from '../queries/report.ts';
import type { LeaderInfo, OldestSnapshot, UnservedJobs, WaitingSuspects } from '../queries/system.ts';
import {
  readLeader,
  readOldestSnapshot,
  readSchemaVersion,
  readSuspects,
  readUnserved,
} from '../queries/system.ts';
import type { HotTable } from '../queries/tables.ts';
import { readHotTables } from '../queries/tables.ts';
import type { ReportedFault } from '../statements/report.ts';

/** Something that keeps jobs from running, or the database from being cleaned up. */
export type Warning =
  | { readonly kind: 'no_leader'; readonly message: string }
  | { readonly kind: 'no_capable_node'; readonly message: string; readonly unserved: UnservedJobs }
  | {
      /** For ten seconds or more. */
      readonly kind: 'suspects_wait';
      readonly message: string;
      readonly suspects: WaitingSuspects;
    }
  | { readonly kind: 'old_snapshot'; readonly message: string; readonly snapshot: OldestSnapshot }
  | {
      /** A gate, an order or the policy itself fails: ticks go on without it, or hold what it should decide. */
      readonly kind: 'policy_fault';
      readonly message: string;
      readonly fault: ReportedFault;
    }
  | { readonly kind: 'silent_leader'; readonly message: string };

/** A queue, and why its jobs are held. */
export interface QueueStatus extends QueueInfo {
  /**
   * Jobs of the leader's last snapshot by reason, the most frequent first; all that are pending where it is paused; null where no report
   * says. `suspect` counts ready ones that wait for a node that runs nothing else, whatever the report says.
   */
  readonly held: Readonly<Record<string, number>> | null;
}

/** The whole installation at one look. */
export interface Status {
  readonly schema: string;
  readonly schemaVersion: number;
  readonly leader: LeaderInfo;
  /** What the leading scheduler knows: its ticks, why jobs are held, faults of its policy. Null: it has not said anything yet. */
  readonly scheduler: StoredReport | null;
  readonly queues: readonly QueueStatus[];
  /** Over all queues. */
  readonly totals: {
    readonly delayed: number;
    readonly pending: number;
    readonly ready: number;
    readonly running: number;
    readonly dead: number;
    /** None of these is an estimate. */
    readonly exact: boolean;
    readonly oldestMs: number | null;
    readonly claimAgeMs: number | null;
    readonly retryRate: number | null;
    /** Jobs done a second, over the last five minutes. */
    readonly donePerSecond: number;
  };
  readonly nodes: {
    readonly alive: number;
    readonly draining: number;
    readonly lost: number;
    readonly left: number;
    /** Alive or draining, but with a late heartbeat. */
    readonly overdue: number;
    /** Of nodes that are alive. */
    readonly slots: number;
    readonly leases: number;
  };
  /** The session of this database that holds vacuum back most; a queue suffers from an old one sooner than other tables. */
  readonly oldestSnapshot: OldestSnapshot | null;
  /** The two tables that every job goes through. */
  readonly tables: readonly HotTable[];
  readonly warnings: readonly Warning[];
}

const oldSnapshotMs = 60_000;
const longSuspectMs = 10_000;
const windowSeconds = 300;

/**
 * How the installation does. The numbers are those of the views `queue_status` and `overview` (migration 0017), so that whoever shows
 * them agrees. With a million jobs waiting it costs the database some tens of milliseconds, and not more with more of them: {@link shareReading}
 * makes one reading do for many who ask, within a share of the time.
 */
export async function readStatus(database: Database): Promise<Status> {
  const [schemaVersion, leader, scheduler, queues, nodes, oldestSnapshot, tables, unserved, suspects] =
    await Promise.all([
      readSchemaVersion(database),
      readLeader(database),
      readReport(database),
      listQueues(database),
      listNodes(database),
      readOldestSnapshot(database),
      readHotTables(database),
      readUnserved(database),
      readSuspects(database),
    ]);
  const inState = (state: string): number => nodes.filter((node) => node.state === state).length;
  return {
    schema: database.schema,
    schemaVersion,
    leader,
    scheduler,
    queues: queues.map((queue) => ({ ...queue, held: heldIn(scheduler, queue, suspects) })),
    totals: totalsOf(queues),
    nodes: {
      alive: inState('alive'),
      draining: inState('draining'),
      lost: inState('lost'),
      left: inState('left'),
      overdue: nodes.filter(({ overdue }) => overdue).length,
      slots: nodes.reduce((all, { state, slots }) => all + (state === 'alive' ? slots : 0), 0),
      leases: nodes.reduce((all, { leases }) => all + leases, 0),
    },
    oldestSnapshot,
    tables,
    warnings: [
      ...warningsOf({ leader, unserved, suspects, oldestSnapshot }),
      ...reportWarnings(leader, scheduler),
    ],
  };
}

function totalsOf(queues: readonly QueueInfo[]): Status['totals'] {
  const sum = (of: (queue: QueueInfo) => number): number =>
    queues.reduce((total, queue) => total + of(queue), 0);
  const most = (of: (queue: QueueInfo) => number | null): number | null =>
    queues.reduce<number | null>((max, queue) => {
      const value = of(queue);
      return value === null ? max : Math.max(max ?? 0, value);
    }, null);
  const attempts = sum((queue) => queue.attempts);
  return {
    delayed: sum(({ delayed }) => delayed),
    pending: sum(({ pending }) => pending),
    ready: sum(({ ready }) => ready),
    running: sum(({ running }) => running),
    dead: sum(({ dead }) => dead),
    exact: queues.every(({ exact }) => exact),
    oldestMs: most(({ oldestMs }) => oldestMs),
    claimAgeMs: most(({ claimAgeMs }) => claimAgeMs),
    retryRate: attempts === 0 ? null : sum(({ failedAttempts }) => failedAttempts) / attempts,
    donePerSecond: sum(({ done5m }) => done5m) / windowSeconds,
  };
}

/** The scheduler does not look at paused queues at all: what waits in them is counted here. */
function heldIn(
  report: StoredReport | null,
  { queue, paused, pending }: QueueInfo,
  suspects: readonly WaitingSuspects[],
): QueueStatus['held'] {
  const suspect = suspects.reduce((sum, group) => sum + (group.queue === queue ? group.jobs : 0), 0);
  const ready = suspect > 0 ? [['suspect', suspect] as const] : [];
  if (paused && pending > 0) return Object.fromEntries([['paused_queue', pending], ...ready]);
  if (report === null || report.stale) return suspect > 0 ? { suspect } : null;
  const held = [...Object.entries(own(report.held, queue) ?? {}), ...ready];
  return Object.fromEntries(held.toSorted(([, a], [, b]) => b - a));
}

function reportWarnings({ leader }: LeaderInfo, report: StoredReport | null): readonly Warning[] {
  if (report === null || leader === null) return [];
  if (report.stale) {
    // a new leader has not reported yet; one that was silent for so long may have stopped to tick
    if (report.leader !== leader) return [];
    const message = `scheduler ${leader} leads, but has reported nothing for ${seconds(report.ageMs)}: does it still tick?`;
    return [{ kind: 'silent_leader', message }];
  }
  return report.faults.map((fault) => {
    const { policy, part, count, message: error, suspendedUntilMs } = fault;
    const times = count === 1 ? 'once' : `${count} times`;
    const since = seconds(report.nowMs - fault.firstMs);
    const left = suspendedUntilMs === null ? 0 : suspendedUntilMs - report.nowMs;
    const out = left > 0 ? `, and is left out for another ${seconds(left)}` : '';
    const message = `policy ${policy}: ${part} failed ${times}, first ${since} ago${out}: ${error}`;
    return { kind: 'policy_fault', message, fault };
  });
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}

function suspectsText({ queue, pool, jobs, last, waitedMs, leftMs }: WaitingSuspects): string {
  const [one, wait, its] = jobs === 1 ? ['job', 'waits', 'its'] : ['jobs', 'wait', 'their'];
  const most = leftMs === null ? '' : `, and for ${seconds(leftMs)} more at most`;
  const until = jobs === 1 ? 'for as long as that takes' : `${last} of them for as long as that takes`;
  const ends = last === 0 ? '' : `, ${until}: the next crash would be the last`;
  return `${jobs} ${one} of queue ${queue}, lost with ${its} node before, ${wait} for a node of pool ${pool} that runs nothing else, for ${seconds(waitedMs)} so far${most}${ends}`;
}

function warningsOf({
  leader,
  unserved,
  suspects,
  oldestSnapshot: snapshot,
}: {
  readonly leader: LeaderInfo;
  readonly unserved: readonly UnservedJobs[];
  readonly suspects: readonly WaitingSuspects[];
  readonly oldestSnapshot: OldestSnapshot | null;
}): readonly Warning[] {
  const warnings: Warning[] = [];
  if (leader.leader === null) {
    warnings.push({
      kind: 'no_leader',
      message: 'no scheduler leads: jobs that run go on, no new ones start; start "pgqueue scheduler"',
    });
  }
  for (const group of unserved) {
    warnings.push({
      kind: 'no_capable_node',
      message: `${group.jobs} ${group.jobs === 1 ? 'job' : 'jobs'} of queue ${group.queue} ${group.jobs === 1 ? 'waits' : 'wait'}, but no live node of pool ${group.pool} runs task ${group.task} with payloads of version ${group.payloadVersion}`,
      unserved: group,
    });
  }
  for (const group of suspects) {
    if (group.waitedMs < longSuspectMs) continue;
    warnings.push({ kind: 'suspects_wait', message: suspectsText(group), suspects: group });
  }
  if (snapshot !== null && (snapshot.ageMs ?? 0) > oldSnapshotMs) {
    warnings.push({
      kind: 'old_snapshot',
      message: `session ${snapshot.pid} (${snapshot.application || 'no application name'}) has held a snapshot for ${Math.round((snapshot.ageMs ?? 0) / 1_000)} s: VACUUM can't remove what ended since; end it by select pg_terminate_backend(${snapshot.pid})`,
      snapshot,
    });
  }
  return warnings;
}
