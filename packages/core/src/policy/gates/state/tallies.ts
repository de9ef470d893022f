import type { OpenGate, Verdict } from '../../gate.ts';
import type { Candidate, JobFacts, Snapshot } from '../../snapshot.ts';
import type { Limit } from './group.ts';
import { neverMs } from '../../policy.ts';
import { limitFor, oneJob } from './group.ts';
import type { Amounts, AskedJob, Bundle, Counting, Use, UseMemory } from './use.ts';
import { addUse, amountOf, countUse, look, rememberUse } from './use.ts';
import { sayError, sayNumber } from './format.ts';

/** Rules of a concurrency limit. */
export interface TallyRules extends Counting {
  readonly limitOf: (value: string) => Limit | null;
  readonly label: (job: JobFacts, value: string) => string;
  readonly held: Exclude<Verdict, 'admit'>;
}

/** A concurrency limit during one plan. */
interface Tallies extends AskedJob {
  readonly rules: TallyRules;
  /** Returns the amounts that jobs in flight take. */
  readonly use: () => Use;
  /** Amounts that this plan took, by value. */
  readonly took: Map<string, Amounts>;
  /** Amounts that the bundle of the last taken job already covers, by value. */
  bundle: Bundle;
}

/** Limit that a job would exceed. */
interface Over {
  readonly value: string;
  readonly name: string;
  readonly amount: number;
  readonly used: number;
  readonly limit: number;
}

/** Relative tolerance: sums of binary fractions are inexact, and 0.1 + 0.2 must not exceed 0.3. */
const slack = 1e-9;

/** Opens a concurrency limit for one plan. `memory` holds the counts of the last plan. */
export function openTallies(
  { inFlight }: Pick<Snapshot, 'inFlight'>,
  { groupOf, costsOf, limitOf, label, held }: TallyRules,
  memory: UseMemory = rememberUse({ groupOf, costsOf }),
): OpenGate {
  // one object shape for all callers keeps property access fast: that is half of the time of asking
  const rules = { groupOf, costsOf, limitOf, label, held };
  let counted = memory.of(inFlight);
  let shared = true;
  const use = (): Use => {
    if (shared && !memory.current(counted)) [counted, shared] = [countUse(inFlight, rules), false];
    return counted;
  };
  const tallies: Tallies = {
    rules,
    use,
    took: new Map(),
    bundle: new Map(),
    asked: undefined,
    value: null,
    costs: oneJob,
  };
  return {
    admits: (job, _lane, member) => (findOver(tallies, job, member) === undefined ? 'admit' : rules.held),
    take: (job, _lane, member) => {
      if (!member) tallies.bundle = new Map();
      if (tallies.asked !== job) look(tallies, job);
      const { value, costs, bundle, took } = tallies;
      if (value !== null) addUse(took, value, { costs, bundle });
    },
    why: (job) => {
      try {
        const over = findOver(tallies, job, false);
        const untilMs = over !== undefined && isNever(over) ? neverMs : null;
        return { message: explain(tallies, job, over), untilMs, paced: true };
      } catch (error) {
        return { message: sayError(error), untilMs: null };
      }
    },
    faults: () => {
      const { fault } = use();
      return fault === undefined ? [] : [fault];
    },
  };
}

/**
 * Returns the first limit that the job would exceed, or one that it exceeds with nothing in flight.
 * Undefined: the job fits.
 * @throws {Error} if a function of the rules throws
 */
function findOver(tallies: Tallies, job: Candidate, member: boolean): Over | undefined {
  look(tallies, job);
  const { rules, took, bundle, value, costs } = tallies;
  const limit = value === null ? null : rules.limitOf(value);
  if (value === null || limit === null) return undefined;
  const { used, unknown, full, allFull, exact } = tallies.use();
  const amounts = used.get(value);
  const more = took.get(value);
  // fast path of the most common limit: a tick asks about 10,000 keys
  if (costs === oneJob && typeof limit === 'number' && !member && exact) {
    const taken = (amounts === undefined ? 0 : amounts.plain) + (more === undefined ? 0 : more.plain);
    return taken + 1 <= limit ? undefined : { value, name: '', amount: 1, used: taken, limit };
  }
  const covered = member ? bundle.get(value) : undefined;
  let first: Over | undefined;
  for (const [name, amount] of costs) {
    const most = limitFor(limit, name);
    const takes = amount - amountOf(covered, name);
    if (takes <= 0) continue;
    const taken = amountOf(amounts, name) + amountOf(more, name) + amountOf(unknown, name);
    const closed = allFull || full.has(value);
    if ((closed && most !== Infinity) || taken + takes > most + most * slack) {
      const over = { value, name, amount, used: taken, limit: most };
      if (isNever(over)) return over;
      first ??= over;
    }
  }
  return first;
}

/** Reports whether the job would not fit even with nothing in flight. */
function isNever({ amount, limit }: Over): boolean {
  return amount > limit + limit * slack;
}

function explain(tallies: Tallies, job: Candidate, over: Over | undefined): string {
  if (over === undefined) return 'it may go';
  const { value, name, amount, used, limit } = over;
  const what = name === '' ? '' : ` ${name}`;
  const label = tallies.rules.label(job, value);
  const numbers = `${label} has ${sayNumber(used)} of ${sayNumber(limit)}${what} in flight`;
  const { unknown: ofAny, allFull, full } = tallies.use();
  const unknown = amountOf(ofAny, name);
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
    ...(allFull || full.has(value) ? ['there is a job in flight whose cost could not be told'] : []),
  ];
  return [numbers, ...notes].join('; ');
}
