import { own } from '@pgqueue/core';
import type { Database } from '../connection/database.ts';
import type { FlowNumbers } from '../reads/flows.ts';
import { readFlowNumbers } from '../reads/flows.ts';
import type { NodeInfo } from '../reads/nodes.ts';
import { listNodes } from '../reads/nodes.ts';
import type { QueueInfo } from '../reads/queues.ts';
import { listQueues } from '../reads/queues.ts';
import type { ReadOnly } from '../reads/read-only.ts';
import { readOnlyText, readReadOnly } from '../reads/read-only.ts';
import type { StoredReport } from '../reads/report.ts';
import { readReport } from '../reads/report.ts';
import type { LeaderInfo, OldestSnapshot, UnservedJobs } from '../reads/system.ts';
import { readLeader, readOldestSnapshot, readSchemaVersion, readUnserved } from '../reads/system.ts';
import type { HotTable } from '../reads/tables.ts';
import { readHotTables } from '../reads/tables.ts';
import type { ReportedFault, ReportedUnreadable, SchedulerPolicy } from '../calls/report.ts';
import { readPolicies } from '../calls/report.ts';

/** A condition that keeps jobs from running, or the database from being cleaned up. */
export type Warning =
  /** The database takes no writes: nothing is enqueued, dispatched or settled. */
  | { readonly kind: 'read_only'; readonly message: string }
  | { readonly kind: 'no_leader'; readonly message: string }
  | { readonly kind: 'no_capable_node'; readonly message: string; readonly unserved: UnservedJobs }
  | { readonly kind: 'old_snapshot'; readonly message: string; readonly snapshot: OldestSnapshot }
  | {
      /**
       * A gate, an order or the policy itself fails: ticks go on without it, or hold the jobs that it should
       * decide on.
       */
      readonly kind: 'policy_fault';
      readonly message: string;
      readonly fault: ReportedFault;
    }
  | {
      /** A job, a node or the settings of a queue that ticks leave out because they are invalid. */
      readonly kind: 'unreadable';
      readonly message: string;
      readonly unreadable: ReportedUnreadable;
    }
  /** Handlers that ignore their signal hold slots of a node. */
  | {
      readonly kind: 'hung_handlers';
      readonly message: string;
      readonly node: string;
      readonly slots: number;
    }
  | { readonly kind: 'silent_leader'; readonly message: string }
  /** Schedulers have different policies: other rules hold once another one leads. */
  | { readonly kind: 'policies_differ'; readonly message: string };

/** A queue, and the reasons why its jobs are held. */
export interface QueueStatus extends QueueInfo {
  /**
   * Jobs of the leader's last snapshot by reason, the most frequent first; all that are pending where it is paused; null where no report
   * says.
   */
  readonly held: Readonly<Record<string, number>> | null;
}

/** State of the whole installation. */
export interface Status {
  readonly schema: string;
  readonly schemaVersion: number;
  readonly leader: LeaderInfo;
  /**
   * Report of the leading scheduler: its ticks, why jobs are held, faults of its policy. Null: there is none
   * yet.
   */
  readonly scheduler: StoredReport | null;
  readonly queues: readonly QueueStatus[];
  /** Numbers over all queues. */
  readonly totals: {
    readonly delayed: number;
    readonly pending: number;
    readonly ready: number;
    readonly running: number;
    readonly dead: number;
    /** None of these numbers is an estimate. */
    readonly exact: boolean;
    readonly oldestMs: number | null;
    readonly claimAgeMs: number | null;
    readonly retryRate: number | null;
    /** Jobs done per second, over the last five minutes. */
    readonly donePerSecond: number;
  };
  readonly flows: FlowNumbers;
  readonly nodes: {
    readonly alive: number;
    readonly draining: number;
    readonly lost: number;
    readonly left: number;
    /** Alive or draining, but with a late heartbeat. */
    readonly overdue: number;
    /** Slots of alive nodes. */
    readonly slots: number;
    /** Slots of alive nodes that run something. */
    readonly slotsInUse: number;
    /** Leases of all nodes, also of those that drain, and of batches that are claimed ahead. */
    readonly leases: number;
  };
  /**
   * Slots that each pool could use now, as the SQL function `wanted_slots` returns them: its work items, and
   * those that its waiting jobs would make if there were slots for them. Pools without either are missing.
   * Null: no leader has said so within 90 seconds.
   */
  readonly wanted: Readonly<Record<string, number>> | null;
  /**
   * Session of this database that holds vacuum back most. A queue suffers from an old snapshot sooner than
   * other tables.
   */
  readonly oldestSnapshot: OldestSnapshot | null;
  /** The two tables that every job passes through. */
  readonly tables: readonly HotTable[];
  readonly warnings: readonly Warning[];
}

const oldSnapshotMs = 60_000;
const windowSeconds = 300;

/**
 * Reads the state of the installation. The numbers are those of the views `queue_status` and `overview`, so
 * all displays agree. With a million waiting jobs it costs the database some tens of milliseconds, and no
 * more with more of them. {@link shareReading} makes one reading serve many callers, within a share of the
 * time.
 */
export async function readStatus(database: Database): Promise<Status> {
  const [
    schemaVersion,
    leader,
    scheduler,
    queues,
    nodes,
    oldestSnapshot,
    tables,
    unserved,
    flows,
    policies,
    readOnly,
  ] = await Promise.all([
    readSchemaVersion(database),
    readLeader(database),
    readReport(database),
    listQueues(database),
    listNodes(database),
    readOldestSnapshot(database),
    readHotTables(database),
    readUnserved(database),
    readFlowNumbers(database),
    readPolicies(database),
    readReadOnly(database),
  ]);
  const inState = (state: string): number => nodes.filter((node) => node.state === state).length;
  const alive = nodes.filter(({ state }) => state === 'alive');
  return {
    schema: database.schema,
    schemaVersion,
    leader,
    scheduler,
    queues: queues.map((queue) => ({ ...queue, held: heldIn(scheduler, queue) })),
    totals: totalsOf(queues),
    flows,
    nodes: {
      alive: alive.length,
      draining: inState('draining'),
      lost: inState('lost'),
      left: inState('left'),
      overdue: nodes.filter(({ overdue }) => overdue).length,
      slots: alive.reduce((all, { slots }) => all + slots, 0),
      slotsInUse: alive.reduce((all, { slotsInUse }) => all + slotsInUse, 0),
      leases: nodes.reduce((all, { leases }) => all + leases, 0),
    },
    wanted: wantedIn(scheduler),
    oldestSnapshot,
    tables,
    warnings: [
      ...warningsOf({ leader, unserved, oldestSnapshot, readOnly }),
      ...hungWarnings(nodes),
      ...policyWarnings(policies),
      ...reportWarnings(leader, scheduler),
    ],
  };
}

function wantedIn(report: StoredReport | null): Status['wanted'] {
  return report === null || report.stale ? null : (report.wanted ?? null);
}

/** Sums over queues, of one installation or of several. */
export function totalsOf(queues: readonly QueueInfo[]): Status['totals'] {
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

/**
 * Returns a queue's held jobs by reason. The scheduler does not read paused queues at all, so their waiting
 * jobs are counted here.
 */
function heldIn(report: StoredReport | null, { queue, paused, pending }: QueueInfo): QueueStatus['held'] {
  if (paused && pending > 0) return { paused_queue: pending };
  if (report === null || report.stale) return null;
  const held = Object.entries(own(report.held, queue) ?? {});
  return Object.fromEntries(held.toSorted(([, a], [, b]) => b - a));
}

/** Warns of the 20 nodes with most of such slots. */
function hungWarnings(nodes: readonly NodeInfo[]): readonly Warning[] {
  return nodes
    .filter(({ state, hung }) => hung > 0 && (state === 'alive' || state === 'draining'))
    .toSorted((a, b) => b.hung - a.hung)
    .slice(0, 20)
    .map(({ id, hung: slots }) => {
      const held = slots === 1 ? '1 slot is' : `${slots} slots are`;
      const message = `${held} held on node ${id} by handlers that run on although the time of their jobs is over: pass ctx.signal to what they wait for, and restart the node`;
      return { kind: 'hung_handlers', message, node: id, slots };
    });
}

function policyWarnings([first, ...others]: readonly SchedulerPolicy[]): readonly Warning[] {
  const different = others.filter(({ policy, parts }) => policy !== first?.policy || parts !== first.parts);
  if (first === undefined || different.length === 0) return [];
  const shown = different.slice(0, 3).map(({ scheduler, policy }) => {
    const same = policy === first.policy ? ', made of other parts' : '';
    return `${scheduler} has ${JSON.stringify(policy)}${same}`;
  });
  const message = `schedulers have different policies: ${first.scheduler} has ${JSON.stringify(first.policy)}, ${shown.join(', ')}: other rules hold once another one leads; give all the same`;
  return [{ kind: 'policies_differ', message }];
}

function reportWarnings({ leader }: LeaderInfo, report: StoredReport | null): readonly Warning[] {
  if (report === null || leader === null) return [];
  if (report.stale) {
    // a new leader has not reported yet; one that was silent for so long may have stopped ticking
    if (report.leader !== leader) return [];
    const message = `scheduler ${leader} leads, but has reported nothing for ${seconds(report.ageMs)}: does it still tick?`;
    return [{ kind: 'silent_leader', message }];
  }
  return [...report.faults.map((fault) => faultWarning(report, fault)), ...unreadableWarnings(report)];
}

function unreadableWarnings({ unreadable = [] }: StoredReport): readonly Warning[] {
  return unreadable.map((one) => ({
    kind: 'unreadable',
    message: `${one.kind} ${one.id} is left out: ${one.problem}`,
    unreadable: one,
  }));
}

function faultWarning({ nowMs }: StoredReport, fault: ReportedFault): Warning {
  const { policy, part, count, message: error, suspendedUntilMs } = fault;
  const times = count === 1 ? 'once' : `${count} times`;
  const since = seconds(nowMs - fault.firstMs);
  const left = suspendedUntilMs === null ? 0 : suspendedUntilMs - nowMs;
  const out = left > 0 ? `, and is left out for another ${seconds(left)}` : '';
  const message = `policy ${policy}: ${part} failed ${times}, first ${since} ago${out}: ${error}`;
  return { kind: 'policy_fault', message, fault };
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}

function warningsOf({
  leader,
  unserved,
  oldestSnapshot: snapshot,
  readOnly,
}: {
  readonly leader: LeaderInfo;
  readonly unserved: readonly UnservedJobs[];
  readonly oldestSnapshot: OldestSnapshot | null;
  readonly readOnly: ReadOnly | null;
}): readonly Warning[] {
  const warnings: Warning[] = [];
  // no scheduler can lead where nothing is written
  if (readOnly !== null) warnings.push({ kind: 'read_only', message: readOnlyText(readOnly) });
  else if (leader.leader === null) {
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
  if (snapshot !== null && (snapshot.ageMs ?? 0) > oldSnapshotMs) {
    warnings.push({
      kind: 'old_snapshot',
      message: `session ${snapshot.pid} (${snapshot.application || 'no application name'}) has held a snapshot for ${Math.round((snapshot.ageMs ?? 0) / 1_000)} s: VACUUM can't remove what ended since; end it by select pg_terminate_backend(${snapshot.pid})`,
      snapshot,
    });
  }
  return warnings;
}
