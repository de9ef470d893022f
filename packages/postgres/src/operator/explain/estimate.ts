import { neverMs } from '@pgqueue/core';
import type { Hold } from '@pgqueue/core';
import type { RecentDispatches } from '../../calls/report.ts';

/** Estimated start of a waiting job, with the evidence. Nothing is promised. */
export interface Estimate {
  /** By the database's clock. Null: there is no basis for an estimate, or the job is blocked. */
  readonly at: Date | null;
  /**
   * The job never starts until somebody changes something (a limit of 0, a paused queue, no node); the
   * evidence says what.
   */
  readonly blocked: boolean;
  /** In words, with numbers. */
  readonly evidence: readonly string[];
}

export interface Waiting {
  /** By the database's clock. */
  readonly nowMs: number;
  readonly key: string;
  readonly queue: string;
  readonly holds: readonly Hold[];
  /** Due jobs of its key that come first. */
  readonly ahead: number;
  /** Jobs of all keys that come first, by the policy's order; null: unknown. */
  readonly aheadInOrder: number | null;
  readonly flow: RecentDispatches;
}

/** Gates whose holds end only when somebody acts. */
const lasting: ReadonlySet<string> = new Set(['paused_queue', 'no_capable_node']);

/**
 * Estimates the start of a job. Gives no time while a rule holds it whose end nobody knows. Otherwise the
 * start is the latest of two times: the one that the rules name, and the one that its place takes at the pace
 * of the last seconds. The pace is that of its key if the key had several jobs dispatched, else that of all keys, if
 * the order says how many jobs come first. While others of its key come first, a later time that a rule names
 * is only a bound: the evidence says so, and no time is given.
 */
export function estimateStart(waiting: Waiting): Estimate {
  const { holds, nowMs } = waiting;
  const forever = holds.filter(({ gate, untilMs }) =>
    untilMs === null ? lasting.has(gate) : untilMs >= neverMs,
  );
  if (forever.length > 0) return { at: null, blocked: true, evidence: forever.map(({ message }) => message) };
  const open = holds.filter(({ untilMs, paced }) => untilMs === null && paced !== true);
  if (open.length > 0) {
    return estimate(
      null,
      open.map(({ message }) => `nobody knows when this ends: ${message}`),
    );
  }
  const until = holds.reduce((latest, hold) => Math.max(latest, hold.untilMs ?? -Infinity), -Infinity);
  const held = until === -Infinity ? [] : [`a rule holds it until ${new Date(until).toISOString()}`];
  const pace = paceOf(waiting);
  if (pace === undefined) {
    const { windowMs } = waiting.flow;
    const dispatched = waiting.flow.key === 1 ? 'only one job' : 'nothing';
    const nothing = `${dispatched} of its key was dispatched in the last ${seconds(windowMs)}`;
    if (isNext(waiting)) return estimate(Math.max(nowMs, until), [...held, 'it is next']);
    return estimate(null, [...notBefore(until), nothing]);
  }
  if (waiting.ahead > 0 && waiting.aheadInOrder !== 0 && until > nowMs + pace.ms)
    return estimate(null, [...notBefore(until), pace.evidence]);
  return estimate(Math.round(Math.max(until, nowMs + pace.ms)), [...held, pace.evidence]);
}

/** Evidence of a time that only a rule names, while others come first. */
function notBefore(until: number): readonly string[] {
  return until === -Infinity
    ? []
    : [`not before ${new Date(until).toISOString()}, when a rule may change, and others come first`];
}

function estimate(atMs: number | null, evidence: readonly string[]): Estimate {
  return { at: atMs === null ? null : new Date(atMs), blocked: false, evidence };
}

/** Reports whether no job comes first, and every hold ends by time alone. */
function isNext({ holds, ahead, aheadInOrder }: Waiting): boolean {
  return ahead === 0 && (aheadInOrder ?? 1) === 0 && holds.every(({ untilMs }) => untilMs !== null);
}

function paceOf(waiting: Waiting): { readonly ms: number; readonly evidence: string } | undefined {
  const { flow, ahead, aheadInOrder, key, queue } = waiting;
  const during = `over the last ${seconds(flow.windowMs)}`;
  if (flow.windowMs <= 0) return undefined;
  // one dispatch is no pace
  if (flow.key !== null && flow.key > 1) {
    const name = key === '' ? `the empty key of queue ${queue}` : `key ${JSON.stringify(key)}`;
    const perSecond = (flow.key * 1_000) / flow.windowMs;
    return {
      ms: ((ahead + 1) * 1_000) / perSecond,
      evidence: `${name} got ${pace(perSecond)} ${during}, ${count(ahead)} first`,
    };
  }
  if (aheadInOrder === null || flow.all <= 1 || waiting.holds.length > 0) return undefined;
  const perSecond = (flow.all * 1_000) / flow.windowMs;
  return {
    ms: ((Math.max(ahead, aheadInOrder) + 1) * 1_000) / perSecond,
    evidence: `all keys got ${pace(perSecond)} ${during}, ${count(Math.max(ahead, aheadInOrder))} first`,
  };
}

function pace(perSecond: number): string {
  return `${perSecond >= 0.1 ? perSecond.toFixed(1) : perSecond.toPrecision(2)} jobs/s`;
}

function count(jobs: number): string {
  return jobs === 1 ? '1 job comes' : `${jobs} jobs come`;
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1_000))} s`;
}
