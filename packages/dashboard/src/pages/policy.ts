import type { StoredReport } from '@pgqueue/postgres';
import { readLeader, readPolicyStates, readReport } from '@pgqueue/postgres/internal/dashboard';
import type { HeldBy, PolicyFault, PolicyPage, Shadow } from '../contract.ts';
import type { Desk } from '../desk.ts';
import { leadsOf } from './leads.ts';
import { jsonOf, timeOf } from './wire.ts';

const readMax = 1_048_576;
const shownMax = 65_536;
const queuesMax = 10;

export async function policyPage({ database }: Desk): Promise<PolicyPage> {
  const [{ leader, epoch }, report, states] = await Promise.all([
    readLeader(database),
    readReport(database),
    readPolicyStates(database, readMax),
  ]);
  const time = (ms: number): string => new Date(ms).toISOString();
  return {
    at: report === null ? new Date().toISOString() : time(report.nowMs),
    leader,
    epoch,
    policy: report?.policy ?? null,
    reported: report === null ? null : time(report.nowMs - report.ageMs),
    stale: report?.stale ?? false,
    held: report === null ? [] : heldBy(report),
    ticks: report?.ticks ?? null,
    lanes: report?.lanes ?? null,
    inFlight: report?.inFlight ?? null,
    forecast: report?.forecast ?? null,
    faults: (report?.faults ?? []).map((fault): PolicyFault => {
      const { policy, part, message, count, firstMs, atMs, suspendedUntilMs } = fault;
      return {
        policy,
        part,
        message,
        count,
        first: time(firstMs),
        last: time(atMs),
        suspendedUntil: suspendedUntilMs === null ? null : time(suspendedUntilMs),
      };
    }),
    shadow: shadowIn(report?.shadow),
    leads: leadsOf(states),
    state: states.map(({ part, saved, bytes, state }) => ({
      policy: part,
      saved: timeOf(saved),
      bytes,
      state: bytes <= shownMax ? jsonOf(state) : null,
    })),
  };
}

/** Groups held jobs by gate instead of by queue; the gate that holds most comes first. */
function heldBy({ held }: StoredReport): readonly HeldBy[] {
  const parts = Object.entries(held).flatMap(([queue, gates]) =>
    Object.entries(gates).map(([gate, jobs]) => ({ gate, queue, jobs })),
  );
  return [...Map.groupBy(parts, ({ gate }) => gate)]
    .map(([gate, queues]) => ({
      gate,
      jobs: queues.reduce((sum, { jobs }) => sum + jobs, 0),
      queues: queues
        .toSorted((a, b) => b.jobs - a.jobs)
        .slice(0, queuesMax)
        .map(({ queue, jobs }) => ({ queue, jobs })),
    }))
    .toSorted((a, b) => b.jobs - a.jobs);
}

/**
 * Reads the shadow report. Null: no shadow policy runs, or the leader's release reports it in another form.
 */
function shadowIn(value: unknown): Shadow | null {
  if (typeof value !== 'object' || value === null) return null;
  const { policy, snapshots, skipped, failed, both, liveOnly, shadowOnly, rankDifference, meanMs, keys } =
    value as Partial<Shadow>;
  const whole =
    typeof policy === 'string' &&
    typeof snapshots === 'number' &&
    typeof skipped === 'number' &&
    typeof failed === 'number' &&
    typeof both === 'number' &&
    typeof liveOnly === 'object' &&
    typeof shadowOnly === 'object' &&
    Array.isArray(keys);
  if (!whole) return null;
  return {
    policy,
    snapshots,
    skipped,
    failed,
    both,
    liveOnly,
    shadowOnly,
    rankDifference: rankDifference ?? null,
    meanMs: meanMs ?? null,
    keys: keys.slice(0, 200),
  };
}
