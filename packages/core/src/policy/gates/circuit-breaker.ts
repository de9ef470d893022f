import { unreachable } from '../../errors.ts';
import type { Shape } from '../../options/options.ts';
import { aFlag, aFunction, aNumber, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import type { Gate, OpenGate, Verdict } from '../gate.ts';
import type { Candidate, JobFacts, Snapshot } from '../snapshot.ts';
import { own } from '../snapshot.ts';
import type { Circuit, CircuitRules, Circuits } from './lib/circuits.ts';
import { advance, confirmProbe, savedCircuits, sendProbe } from './lib/circuits.ts';
import type { GroupBy } from './lib/group.ts';
import { groupOf } from './lib/group.ts';
import { sayGroup, sayMs, sayNumber } from './lib/format.ts';

/** When a circuit opens, for how long, and of what: see {@link circuitBreaker}. */
export interface CircuitBreakerOptions {
  /** What may fail, as reasons call it: `provider acme is open: …`. */
  readonly name: string;
  /** Each of its values has a circuit of its own: what fails together. */
  readonly by: GroupBy;
  /** The share of failed attempts at which it opens: above 0, at most 1. */
  readonly errorRate: number;
  /** Attempts that must have ended in the window before it is judged, 1 or more. */
  readonly minimum: number;
  /** Attempts of the last so many milliseconds count, to a tenth of it. */
  readonly windowMs: number;
  /** How long all jobs of the value are held before one of them is tried. */
  readonly openMs: number;
  /** Jobs that it concerns; others neither count nor are held. Default: all. */
  readonly when?: (job: JobFacts) => boolean;
  /** A promise that `by` and `when` depend on the job's queue and key only: then the rest of a key need not be asked about. */
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
 * Holds the jobs of what keeps failing. Where, of the attempts that ended within the window, so large a share failed (to be retried,
 * dead, or crashed), the circuit opens: nothing of that value goes. After `openMs` it is half open: one job goes, the
 * probe. If that is done the circuit closes, and counts anew; if it fails, it opens again. Jobs that were in flight when it opened
 * run on, and make no difference. A probe that went is known to the next leader by its work item; one that is lost without a
 * result is given up after `openMs`.
 *
 * The pattern: M. Nygard, Release It!, 2007.
 * @throws {PgQueueError} `configuration`
 */
export function circuitBreaker(options: CircuitBreakerOptions): Gate {
  checkPart('gate', 'circuitBreaker', { options, shape });
  return {
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
      of: (job) => (options.when?.(job) === false ? null : groupOf(options.by, job)),
      lane: options.lane === true,
    },
  };
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
    if (options.when?.(job) === false) return undefined;
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

/** The value of a job that is in flight or has ended; where that fails, it is not counted. */
function valuesBy({ by, when }: CircuitBreakerOptions): (job: JobFacts) => string | null {
  return (job) => {
    try {
      return when?.(job) === false ? null : groupOf(by, job);
    } catch {
      return null;
    }
  };
}

/** When a circuit that holds lets a job go, by time alone. */
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
