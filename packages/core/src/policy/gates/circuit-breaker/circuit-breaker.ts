import { answerOf } from '../../answer.ts';
import { unreachable } from '../../../errors.ts';
import type { Shape } from '../../../options/options.ts';
import { aFlag, aFunction, aNumber, optional } from '../../../options/options.ts';
import { aName, checkPart } from '../../check-part.ts';
import { madeWith } from '../../made-with.ts';
import type { Gate, OpenGate, Verdict } from '../../gate.ts';
import type { Candidate, JobFacts, Snapshot } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import type { Circuit, CircuitRules, Circuits } from '../state/circuits.ts';
import { advance, confirmProbe, savedCircuits, sendProbe } from '../state/circuits.ts';
import type { GroupBy } from '../state/group.ts';
import { groupOf } from '../state/group.ts';
import { sayGroup, sayMs, sayNumber } from '../state/format.ts';

/** Options of {@link circuitBreaker}: the jobs that share a circuit, and when it opens and for how long. */
export interface CircuitBreakerOptions {
  /** Name of the group that may fail, used in reasons: `provider acme is open: …`. */
  readonly name: string;
  /** Groups the jobs that fail together. Each value has a circuit of its own. */
  readonly by: GroupBy;
  /** Share of failed attempts at which the circuit opens: above 0, at most 1. */
  readonly errorRate: number;
  /** Number of attempts that must have ended within the window before the circuit is judged: 1 or more. */
  readonly minimum: number;
  /**
   * Length of the window in which ended attempts count, in milliseconds. Its resolution is a tenth of the
   * window.
   */
  readonly windowMs: number;
  /** Time for which all jobs of the value are held before a probe goes, in milliseconds. */
  readonly openMs: number;
  /** Selects the jobs that the circuit concerns. All others neither count nor are held. Default: all jobs. */
  readonly when?: (job: JobFacts) => boolean;
  /**
   * Promises that `by` and `when` depend on the job's queue and key only. Then one held job holds its whole
   * lane, and the other jobs of the key are not asked about.
   */
  readonly lane?: boolean;
}

const shape: Shape<CircuitBreakerOptions> = {
  name: aName,
  by: aFunction,
  errorRate: aNumber({ above: 0, max: 1 }),
  minimum: aNumber({ min: 1 }),
  windowMs: aNumber({ above: 0 }),
  openMs: aNumber({ above: 0 }),
  when: optional(aFunction),
  lane: optional(aFlag),
};

/**
 * Holds the jobs of a group that keeps failing.
 *
 * The circuit opens when at least `minimum` attempts ended within the window and a share of `errorRate` or
 * more failed (to be retried, dead, or crashed). While the circuit is open, no job of that value goes. After
 * `openMs` it is half open: one job goes, the probe. If the probe is done, the circuit closes and counts from
 * zero. If it fails, the circuit opens again. Jobs that were in flight when the circuit opened run on and
 * make no difference. The next leader recognizes a probe by its work item. A probe that is lost without a
 * result is given up after `openMs`.
 *
 * The pattern: M. Nygard, Release It!, 2007.
 * @throws {PgQueueError} `configuration`
 */
export function circuitBreaker(options: CircuitBreakerOptions): Gate {
  checkPart('gate', 'circuitBreaker', { options, shape });
  return madeWith(options, {
    name: options.name,
    initial: {},
    restore: savedCircuits,
    open: (snapshot, state) => openBreaker(snapshot, state as Circuits, options),
    written: (state, { ids }) => {
      const before = Object.entries(state as Circuits);
      const after = before.map(([value, circuit]) => [value, confirmProbe(circuit, ids)] as const);
      return after.some(([, circuit], index) => circuit !== before[index]?.[1])
        ? Object.fromEntries(after)
        : state;
    },
    needs: { settlements: true },
    soft: true,
    tellsTime: true,
    groups: {
      of: (job) => (isFor(options, job) ? groupOf(options.by, job) : null),
      lane: options.lane === true,
    },
  } satisfies Gate);
}

function isFor({ when }: CircuitBreakerOptions, job: JobFacts): boolean {
  return answerOf('when', when?.(job)) !== false;
}

function openBreaker(snapshot: Snapshot, state: Circuits, options: CircuitBreakerOptions): OpenGate {
  const { nowMs } = snapshot;
  const valueOf = valuesBy(options);
  const circuits = advance(state, options satisfies CircuitRules, {
    nowMs,
    settled: snapshot.settled.flatMap((settlement) => {
      const value = valueOf(settlement.job);
      return value === null ? [] : [{ value, settlement }];
    }),
    inFlight: () =>
      snapshot.inFlight.flatMap((item) => {
        const value = valueOf(item);
        return value === null ? [] : [{ value, item }];
      }),
  });
  const sent = new Map<string, Circuit>();
  const held: Verdict = options.lane === true ? 'hold_lane' : 'hold';
  let nextMs: number | null = null;

  const find = (job: Candidate): Circuit | undefined => {
    if (!isFor(options, job)) return undefined;
    const value = groupOf(options.by, job);
    return value === null ? undefined : (sent.get(value) ?? own(circuits, value));
  };
  return {
    admits: (job, _lane, member) => {
      const circuit = find(job);
      if (circuit === undefined || circuit.kind === 'closed') return 'admit';
      const dueMs = changesMs(circuit, options);
      if (circuit.kind === 'open' && nowMs >= circuit.untilMs) return member ? 'hold' : 'admit';
      if (dueMs !== null) nextMs = Math.min(nextMs ?? Infinity, dueMs);
      return held;
    },
    take: (job) => {
      const circuit = find(job);
      if (circuit?.kind !== 'open') return;
      const value = groupOf(options.by, job);
      if (value !== null) sent.set(value, sendProbe(circuit, job.id));
    },
    why: (job) => {
      const circuit = find(job);
      const untilMs = circuit === undefined ? null : changesMs(circuit, options);
      return { message: explain(job, circuit, options, nowMs), untilMs };
    },
    nextMs: () => nextMs,
    state: () => (sent.size === 0 ? circuits : { ...circuits, ...Object.fromEntries(sent) }),
  };
}

/**
 * Returns a function from a job in flight, or one that has ended, to its value. A job for which `by` or
 * `when` throws is not counted.
 */
function valuesBy(options: CircuitBreakerOptions): (job: JobFacts) => string | null {
  return (job) => {
    try {
      return isFor(options, job) ? groupOf(options.by, job) : null;
    } catch {
      return null;
    }
  };
}

/**
 * Returns the time at which a circuit that holds lets a job go by time alone, in Unix milliseconds. Null:
 * only an event can change it.
 */
function changesMs(circuit: Circuit, { openMs }: CircuitRules): number | null {
  switch (circuit.kind) {
    case 'closed':
      return null;
    case 'open':
      return circuit.untilMs;
    case 'probing':
      return circuit.goneMs === null ? null : circuit.goneMs + openMs;
    default:
      return unreachable(circuit);
  }
}

function explain(
  job: Candidate,
  circuit: Circuit | undefined,
  { name, by, windowMs }: CircuitBreakerOptions,
  nowMs: number,
): string {
  if (circuit === undefined || circuit.kind === 'closed') return 'it may go';
  const label = sayGroup(name, groupOf(by, job) ?? undefined);
  const failed = `${sayNumber(circuit.failed)} of ${sayNumber(circuit.ended)} attempts failed within ${sayMs(windowMs)}`;
  if (circuit.kind === 'probing')
    return `${label} is half open, and waits for its probe, job ${circuit.probe}: ${failed}`;
  return `${label} is open: ${failed}; a probe goes in ${sayMs(Math.max(0, circuit.untilMs - nowMs))}`;
}
