import type { OpenGate, Verdict } from '../gate.ts';
import type { Candidate, JobFacts, Snapshot } from '../snapshot.ts';
import type { Costs, Limit } from './group.ts';
import { limitFor } from './group.ts';
import { sayError, sayNumber } from './words.ts';

/** What makes a concurrency limit. */
export interface TallyRules {
  readonly groupOf: (job: JobFacts) => string | null;
  readonly costsOf: (job: JobFacts) => Costs;
  /** Asked once for each value. */
  readonly limitOf: (value: string, job: JobFacts) => Limit | null;
  readonly label: (job: JobFacts, value: string) => string;
  readonly held: Exclude<Verdict, 'admit'>;
}

/** What is in flight: by value, then by the names of costs. */
interface Tallies {
  readonly rules: TallyRules;
  readonly used: Map<string, Map<string, number>>;
  readonly limits: Map<string, Limit | null>;
  /** Of jobs in flight whose value is not known: it counts for every value. */
  readonly unknown: Map<string, number>;
  /** Values with a job in flight whose cost is not known. */
  readonly full: Set<string>;
  /** There is a job in flight of which neither is known. */
  allFull: boolean;
  /** What the bundle of the job that was taken last covers. */
  bundle: Bundle;
  /** The job that was asked about last: a user's function is not asked again when it goes. */
  asked: Asked | undefined;
}

/** A job and what it takes. */
interface Asked {
  readonly job: Candidate;
  readonly value: string | null;
  readonly costs: Costs;
}

/** By value, then by the names of costs: the most that a member takes. */
type Bundle = Map<string, Map<string, number>>;

/** Where a job does not fit. */
interface Over {
  readonly value: string;
  readonly name: string;
  readonly amount: number;
  readonly used: number;
  readonly limit: number;
}

/** Sums of fractions come out uneven in binary: 0.1 + 0.2 is no more than 0.3 here. */
const slack = 1e-9;

/** A concurrency limit during one plan. */
export function openTallies(snapshot: Pick<Snapshot, 'inFlight'>, rules: TallyRules): OpenGate {
  const tallies: Tallies = {
    rules,
    used: new Map(),
    limits: new Map(),
    unknown: new Map(),
    full: new Set(),
    allFull: false,
    bundle: new Map(),
    asked: undefined,
  };
  count(tallies, snapshot);
  return {
    admits: (job, _lane, member) => (findOver(tallies, job, member) === undefined ? 'admit' : rules.held),
    take: (job, _lane, member) => {
      if (!member) tallies.bundle = new Map();
      const { value, costs } = tallies.asked?.job === job ? tallies.asked : look(tallies, job);
      if (value !== null) add(tallies.used, value, { costs, bundle: tallies.bundle });
    },
    why: (job) => {
      try {
        return { message: explain(tallies, job, findOver(tallies, job, false)), untilMs: null };
      } catch (error) {
        return { message: sayError(error), untilMs: null };
      }
    },
  };
}

function count(tallies: Tallies, { inFlight }: Pick<Snapshot, 'inFlight'>): void {
  const { rules, used, unknown, full } = tallies;
  const bundles = new Map<string, Bundle>();
  for (const item of inFlight) {
    const value = attempt(rules.groupOf, item);
    if (value === null) continue;
    const costs = attempt(rules.costsOf, item);
    if (costs === undefined) {
      if (value === undefined) tallies.allFull = true;
      else full.add(value);
    } else if (value === undefined) {
      for (const [name, amount] of costs) unknown.set(name, (unknown.get(name) ?? 0) + amount);
    } else {
      add(used, value, { costs, bundle: bundleOf(bundles, item.bundle) });
    }
  }
}

/** Undefined where it throws: what is in flight has to be counted, one way or another. */
function attempt<Value>(of: (job: JobFacts) => Value, job: JobFacts): Value | undefined {
  try {
    return of(job);
  } catch {
    return undefined;
  }
}

function bundleOf(bundles: Map<string, Bundle>, id: string | null): Bundle | undefined {
  if (id === null) return undefined;
  const bundle = bundles.get(id) ?? new Map<string, Map<string, number>>();
  bundles.set(id, bundle);
  return bundle;
}

/** Counts what a job takes beyond what its bundle has taken already. */
function add(
  used: Map<string, Map<string, number>>,
  value: string,
  { costs, bundle }: { readonly costs: Costs; readonly bundle: Bundle | undefined },
): void {
  const amounts = used.get(value) ?? new Map<string, number>();
  const covered = bundle === undefined ? undefined : (bundle.get(value) ?? new Map<string, number>());
  for (const [name, amount] of costs) {
    const more = amount - (covered?.get(name) ?? 0);
    if (more <= 0) continue;
    amounts.set(name, (amounts.get(name) ?? 0) + more);
    covered?.set(name, amount);
  }
  used.set(value, amounts);
  if (covered !== undefined) bundle?.set(value, covered);
}

function look(tallies: Tallies, job: Candidate): Asked {
  const value = tallies.rules.groupOf(job);
  const asked = { job, value, costs: value === null ? [] : tallies.rules.costsOf(job) };
  tallies.asked = asked;
  return asked;
}

/** @throws {Error} what the rules throw */
function findOver(tallies: Tallies, job: Candidate, member: boolean): Over | undefined {
  const { used, unknown, full, bundle } = tallies;
  const { value, costs } = look(tallies, job);
  const limit = value === null ? null : limitOf(tallies, value, job);
  if (value === null || limit === null) return undefined;
  const amounts = used.get(value);
  const covered = member ? bundle.get(value) : undefined;
  for (const [name, amount] of costs) {
    const most = limitFor(limit, name);
    const more = amount - (covered?.get(name) ?? 0);
    if (more <= 0) continue;
    const taken = (amounts?.get(name) ?? 0) + (unknown.get(name) ?? 0);
    const closed = tallies.allFull || full.has(value);
    if ((closed && most !== Infinity) || taken + more > most + most * slack) {
      return { value, name, amount, used: taken, limit: most };
    }
  }
  return undefined;
}

function limitOf({ limits, rules }: Tallies, value: string, job: JobFacts): Limit | null {
  const known = limits.get(value);
  if (known !== undefined) return known;
  const limit = rules.limitOf(value, job);
  limits.set(value, limit);
  return limit;
}

function explain(tallies: Tallies, job: Candidate, over: Over | undefined): string {
  if (over === undefined) return 'it may go';
  const { value, name, amount, used, limit } = over;
  const what = name === '' ? '' : ` ${name}`;
  const label = tallies.rules.label(job, value);
  const numbers = `${label} has ${sayNumber(used)} of ${sayNumber(limit)}${what} in flight`;
  const unknown = tallies.unknown.get(name) ?? 0;
  const plain = amount === 1 && name === '';
  const never = amount > limit + limit * slack && !(plain && limit === 0);
  const notes = [
    ...(never
      ? [`this job takes ${sayNumber(amount)}, so it can't go at this limit`]
      : plain
        ? []
        : [`this job takes ${sayNumber(amount)}`]),
    ...(unknown > 0 ? [`${sayNumber(unknown)} of it for jobs whose value could not be told`] : []),
    ...(tallies.allFull || tallies.full.has(value)
      ? ['there is a job in flight whose cost could not be told']
      : []),
  ];
  return [numbers, ...notes].join('; ');
}
