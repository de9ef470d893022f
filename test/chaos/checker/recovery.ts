// Measures the time until work continued after each fault, and until other processes ran what the hit process
// had held.
import { percentile } from '../../proofs/checks.ts';
import type { EventOf } from './history.ts';
import type { LeaseTrace, Traces } from './traces.ts';

/** Milliseconds. */
export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface Recovery {
  readonly kind: string;
  readonly made: number;
  /** Milliseconds from the end of the fault until a job that was claimed after it was settled. */
  readonly goesOn: Spread;
  /**
   * Milliseconds from the beginning of the fault until each job of its target was leased by others. Leaves
   * out jobs that were not.
   */
  readonly takenOver: Spread;
  /** Number of faults after which no job was settled: the run ended, or the system stopped. */
  readonly never: number;
}

export function recoveriesOf(traces: Traces): readonly Recovery[] {
  const leases = [...traces.jobs.values()].flatMap((job) => [...job.leases.values()]);
  const settled = leases
    .flatMap(({ claim, settles }) =>
      settles
        .filter(({ verdict }) => verdict !== 'stale' && verdict !== 'none')
        .map(({ to }) => ({ claimedAt: claim.from, settledAt: to })),
    )
    .toSorted((a, b) => a.claimedAt - b.claimedAt);
  const byNode = Map.groupBy(leases, ({ node }) => node);
  const faults = Map.groupBy(
    traces.events.filter((event) => event.type === 'fault'),
    ({ n }) => n,
  );
  const all = [...faults.values()].map((phases) => one(phases, { settled, byNode, traces }));
  const made = all.filter((fault) => fault !== undefined);
  return [...Map.groupBy(made, ({ kind }) => kind)]
    .map(([kind, own]) => ({
      kind,
      made: own.length,
      goesOn: spread(own.flatMap(({ goesOnMs }) => goesOnMs ?? [])),
      takenOver: spread(own.flatMap(({ takenOverMs }) => takenOverMs)),
      never: own.filter(({ goesOnMs }) => goesOnMs === undefined).length,
    }))
    .toSorted((a, b) => a.kind.localeCompare(b.kind));
}

interface Settled {
  readonly claimedAt: number;
  readonly settledAt: number;
}

interface Known {
  /** In the order of their claims. */
  readonly settled: readonly Settled[];
  readonly byNode: ReadonlyMap<string, readonly LeaseTrace[]>;
  readonly traces: Traces;
}

interface Recovered {
  readonly kind: string;
  readonly goesOnMs: number | undefined;
  readonly takenOverMs: readonly number[];
}

function one(phases: readonly EventOf<'fault'>[], known: Known): Recovered | undefined {
  const at = (wanted: string): EventOf<'fault'> | undefined => phases.find(({ phase }) => phase === wanted);
  const [start, made, healed] = [at('start'), at('made'), at('healed')];
  if (start === undefined || made === undefined) return undefined;
  const over = healed?.at ?? made.at;
  const from = firstFrom(known.settled, over);
  // the next 500 claims: many are under way at once, and the first to be settled need not be the first
  // claimed
  const next = known.settled.slice(from, from + 500);
  const settledAt = Math.min(...next.map(({ settledAt: when }) => when));
  return {
    kind: start.kind,
    goesOnMs: next.length === 0 ? undefined : Math.max(0, settledAt - over),
    takenOverMs: start.target === undefined ? [] : takenOver(start.target, made.at, known),
  };
}

function firstFrom(settled: readonly Settled[], at: number): number {
  let [low, high] = [0, settled.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((settled[middle]?.claimedAt ?? Infinity) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns the milliseconds until other nodes had leased each job that the node held when it was hit. Skips
 * leases that the node settled or released itself. Skips leases that it had lost before the fault too: their
 * jobs have been with others since.
 */
function takenOver(node: string, hitAt: number, { byNode, traces }: Known): readonly number[] {
  return (byNode.get(node) ?? [])
    .filter(
      ({ claim, settles, released }) =>
        claim.to <= hitAt &&
        released.length === 0 &&
        settles.every(({ verdict }) => verdict === 'stale' || verdict === 'none') &&
        !settles.some(({ from }) => from < hitAt),
    )
    .flatMap(({ id, claim }) => {
      const later = [...(traces.jobs.get(id)?.leases.values() ?? [])]
        .filter((other) => other.claim.from > claim.from)
        .toSorted((a, b) => a.claim.from - b.claim.from);
      const [next] = later;
      return next === undefined || next.claim.from <= hitAt ? [] : [next.claim.to - hitAt];
    });
}

function spread(values: readonly number[]): Spread {
  return {
    count: values.length,
    p50: percentile(values, 0.5),
    p99: percentile(values, 0.99),
    max: percentile(values, 1),
  };
}
