import type { OpenGate, Verdict } from '../gate.ts';
import type { Candidate, JobFacts, Snapshot } from '../snapshot.ts';
import type { Costs, Limit } from './group.ts';
import { neverMs } from '../policy.ts';
import { limitFor, oneJob } from './group.ts';
import { sayError, sayNumber } from './words.ts';

/** What makes a concurrency limit. */
export interface TallyRules {
  readonly groupOf: (job: JobFacts) => string | null;
  /** Null: one each. */
  readonly costsOf: ((job: JobFacts) => Costs) | null;
  readonly limitOf: (value: string) => Limit | null;
  readonly label: (job: JobFacts, value: string) => string;
  readonly held: Exclude<Verdict, 'admit'>;
}

/** What is in flight. */
interface Tallies {
  readonly rules: TallyRules;
  readonly used: Map<string, Amounts>;
  /** Of jobs in flight whose value is not known: it counts for every value. */
  readonly unknown: Amounts;
  /** Values with a job in flight whose cost is not known. */
  readonly full: Set<string>;
  /** There is a job in flight of which neither is known. */
  allFull: boolean;
  /** Of every job in flight both are known. */
  exact: boolean;
  /** Why that is not so, by the first such job. */
  fault: unknown;
  /** What the bundle of the job that was taken last covers. */
  bundle: Bundle;
  /** The job that was asked about last: a user's function is not asked again when it goes. */
  asked: Candidate | undefined;
  value: string | null;
  costs: Costs;
}

/** Amounts by the names of costs. Most costs are plain numbers, without a name. */
interface Amounts {
  plain: number;
  named: Map<string, number> | undefined;
}

/** By value: the most that a member takes. */
type Bundle = Map<string, Amounts>;

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
export function openTallies(
  { inFlight }: Pick<Snapshot, 'inFlight'>,
  { groupOf, costsOf, limitOf, label, held }: TallyRules,
): OpenGate {
  // of one shape, whoever made them: that is half of the time of asking
  const rules = { groupOf, costsOf, limitOf, label, held };
  const tallies: Tallies = {
    rules,
    used: new Map(),
    unknown: { plain: 0, named: undefined },
    full: new Set(),
    allFull: false,
    exact: true,
    fault: undefined,
    bundle: new Map(),
    asked: undefined,
    value: null,
    costs: oneJob,
  };
  count(tallies, inFlight);
  return {
    admits: (job, _lane, member) => (findOver(tallies, job, member) === undefined ? 'admit' : rules.held),
    take: (job, _lane, member) => {
      if (!member) tallies.bundle = new Map();
      if (tallies.asked !== job) look(tallies, job);
      const { value, costs, bundle } = tallies;
      if (value !== null) add(tallies.used, value, { costs, bundle });
    },
    why: (job) => {
      try {
        const over = findOver(tallies, job, false);
        const untilMs = over !== undefined && isNever(over) ? neverMs : null;
        return { message: explain(tallies, job, over), untilMs };
      } catch (error) {
        return { message: sayError(error), untilMs: null };
      }
    },
    faults: () => (tallies.fault === undefined ? [] : [tallies.fault]),
  };
}

function count(tallies: Tallies, inFlight: Snapshot['inFlight']): void {
  const { rules, used, unknown, full } = tallies;
  const bundles = new Map<string, Bundle>();
  for (const item of inFlight) {
    const value = attempt(tallies, rules.groupOf, item);
    if (value === null) continue;
    const costs = rules.costsOf === null ? oneJob : attempt(tallies, rules.costsOf, item);
    if (costs === undefined) {
      if (value === undefined) tallies.allFull = true;
      else full.add(value);
    } else if (value === undefined) {
      for (const [name, amount] of costs) put(unknown, name, amountOf(unknown, name) + amount);
    } else {
      add(used, value, { costs, bundle: bundleOf(bundles, item.bundle) });
    }
  }
}

function amountOf(amounts: Amounts | undefined, name: string): number {
  if (amounts === undefined) return 0;
  return name === '' ? amounts.plain : (amounts.named?.get(name) ?? 0);
}

function put(amounts: Amounts, name: string, amount: number): void {
  if (name === '') amounts.plain = amount;
  else (amounts.named ??= new Map()).set(name, amount);
}

/** Undefined where it throws: what is in flight has to be counted, one way or another. */
function attempt<Value>(tallies: Tallies, of: (job: JobFacts) => Value, job: JobFacts): Value | undefined {
  try {
    return of(job);
  } catch (error) {
    tallies.exact = false;
    tallies.fault ??= error;
    return undefined;
  }
}

function bundleOf(bundles: Map<string, Bundle>, id: string | null): Bundle | undefined {
  if (id === null) return undefined;
  const bundle = bundles.get(id) ?? new Map<string, Amounts>();
  bundles.set(id, bundle);
  return bundle;
}

/** Counts what a job takes beyond what its bundle has taken already. */
function add(
  used: Map<string, Amounts>,
  value: string,
  { costs, bundle }: { readonly costs: Costs; readonly bundle: Bundle | undefined },
): void {
  const amounts = entryOf(used, value);
  const covered = bundle === undefined ? undefined : entryOf(bundle, value);
  for (const [name, amount] of costs) {
    const more = amount - amountOf(covered, name);
    if (more <= 0) continue;
    put(amounts, name, amountOf(amounts, name) + more);
    if (covered !== undefined) put(covered, name, amount);
  }
}

function entryOf(all: Map<string, Amounts>, value: string): Amounts {
  const known = all.get(value);
  if (known !== undefined) return known;
  const amounts: Amounts = { plain: 0, named: undefined };
  all.set(value, amounts);
  return amounts;
}

/** @throws {Error} what the rules throw */
function look(tallies: Tallies, job: Candidate): void {
  const { groupOf, costsOf } = tallies.rules;
  tallies.asked = undefined;
  tallies.value = groupOf(job);
  if (tallies.value !== null && costsOf !== null) tallies.costs = costsOf(job);
  tallies.asked = job;
}

/** @throws {Error} what the rules throw */
function findOver(tallies: Tallies, job: Candidate, member: boolean): Over | undefined {
  look(tallies, job);
  const { rules, used, unknown, full, bundle, value, costs } = tallies;
  const limit = value === null ? null : rules.limitOf(value);
  if (value === null || limit === null) return undefined;
  const amounts = used.get(value);
  // the most common kind of limit: 10,000 keys are asked about in a tick
  if (costs === oneJob && typeof limit === 'number' && !member && tallies.exact) {
    const taken = amounts === undefined ? 0 : amounts.plain;
    return taken + 1 <= limit ? undefined : { value, name: '', amount: 1, used: taken, limit };
  }
  const covered = member ? bundle.get(value) : undefined;
  for (const [name, amount] of costs) {
    const most = limitFor(limit, name);
    const more = amount - amountOf(covered, name);
    if (more <= 0) continue;
    const taken = amountOf(amounts, name) + amountOf(unknown, name);
    const closed = tallies.allFull || full.has(value);
    if ((closed && most !== Infinity) || taken + more > most + most * slack) {
      return { value, name, amount, used: taken, limit: most };
    }
  }
  return undefined;
}

/** Also with nothing in flight it would not fit. */
function isNever({ amount, limit }: Over): boolean {
  return amount > limit + limit * slack;
}

function explain(tallies: Tallies, job: Candidate, over: Over | undefined): string {
  if (over === undefined) return 'it may go';
  const { value, name, amount, used, limit } = over;
  const what = name === '' ? '' : ` ${name}`;
  const label = tallies.rules.label(job, value);
  const numbers = `${label} has ${sayNumber(used)} of ${sayNumber(limit)}${what} in flight`;
  const unknown = amountOf(tallies.unknown, name);
  const plain = amount === 1 && name === '';
  const never = isNever(over);
  const notes = [
    ...(plain && never ? ['nothing goes until that limit is raised'] : []),
    ...(plain
      ? []
      : [
          `this job takes ${sayNumber(amount)}${never ? ', so it never goes until that limit is raised' : ''}`,
        ]),
    ...(unknown > 0 ? [`${sayNumber(unknown)} of it for jobs whose value could not be told`] : []),
    ...(tallies.allFull || tallies.full.has(value)
      ? ['there is a job in flight whose cost could not be told']
      : []),
  ];
  return [numbers, ...notes].join('; ');
}
