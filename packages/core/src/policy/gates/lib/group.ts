import type { Rule } from '../../../options/options.ts';
import { aFunction, aRecordOf, either } from '../../../options/options.ts';
import type { JobGroups } from '../../gate.ts';
import type { JobFacts } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import { sayError } from './format.ts';

/** What a job counts under; null or undefined (an attribute that it has not): the gate does not concern it. */
export type GroupValue = string | number | boolean | null | undefined;

/** Tells jobs apart for a gate. Must depend on what stays as it is while a job is in flight: not on `tries`. */
export type GroupBy = (job: JobFacts) => GroupValue;

/** How much a job takes: a number, or several by name (`{ tokens: 3, memory: 512 }`). 0 or more each. */
export type Cost = number | Readonly<Record<string, number>>;

/** How much there is: a number, or one for each name that costs may have. */
export type Limit = number | Readonly<Record<string, number>>;

/** A cost by its names; a plain number has the name ''. */
export type Costs = readonly (readonly [name: string, amount: number])[];

/** The cost of a job where none is given. */
export const oneJob: Costs = [['', 1]];

/** The value under which a job counts, as text; null: none. @throws {Error} what `by` throws, with the job named */
export function groupOf(by: GroupBy, job: JobFacts): string | null {
  const value = call('by', job, by);
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return storable(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new Error(`by gave neither a text nor a number for job ${job.id}`);
}

/** PostgreSQL's JSON takes neither NUL nor half of a surrogate pair, which a cut text can end with. */
function storable(text: string): string {
  return (text.includes('\u0000') ? text.replaceAll('\u0000', '\uFFFD') : text).toWellFormed();
}

/** What a job costs. @throws {Error} what `cost` throws, and where it is no cost, with the job named */
export function costsOf(cost: (job: JobFacts) => Cost, job: JobFacts): Costs {
  const value = call('cost', job, cost);
  const costs: Costs = typeof value === 'number' ? [['', value]] : Object.entries(value);
  for (const [name, amount] of costs) {
    if (!isAmount(amount) || amount === Infinity) {
      throw new Error(`cost gave ${sayCost(name, amount)} for job ${job.id}, where 0 or more is expected`);
    }
  }
  return costs;
}

/** Jobs that count under the same value, and take the same, are alike to a limit. `lane`: both depend on queue and key only. */
export function alike({
  by,
  cost,
  lane = false,
}: {
  readonly by?: GroupBy | undefined;
  readonly cost?: ((job: JobFacts) => Cost) | undefined;
  readonly lane?: boolean | undefined;
}): JobGroups {
  return {
    of: (job) => {
      const value = by === undefined ? '' : groupOf(by, job);
      return value === null || cost === undefined ? value : JSON.stringify([value, ...costsOf(cost, job)]);
    },
    lane: lane || (by === undefined && cost === undefined),
  };
}

/** The part of a limit for one name of a cost. @throws {Error} where it has none: a limit that is not there would never hold */
export function limitFor(limit: Limit, name: string): number {
  const found = typeof limit === 'number' ? (name === '' ? limit : undefined) : own(limit, name);
  if (found === undefined || !isAmount(found)) {
    throw new Error(`there is no limit for a cost ${name === '' ? 'in plain numbers' : `of ${name}`}`);
  }
  return found;
}

/** Asks about each value once: what a user's function said of it holds for the whole plan. */
export function once<Result>(of: (value: string) => Result): (value: string) => Result {
  const known = new Map<string, { readonly result: Result }>();
  return (value) => {
    const found = known.get(value) ?? { result: of(value) };
    known.set(value, found);
    return found.result;
  };
}

/** Whether it may stand as a cost or limit. */
export function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}

/** An option that is an amount. */
export function anAmount(above?: number): Rule {
  return {
    expected: above === undefined ? '0 or more' : `more than ${above}`,
    judge: (value) => isAmount(value) && (above === undefined || value > above),
  };
}

/** A limit, or one for each value. */
export function aLimit(above?: number): Rule {
  const amount = anAmount(above);
  return {
    ...either(amount, aRecordOf(amount), aFunction),
    expected: `${amount.expected}, or several such by name, or a function`,
  };
}

/** What is wrong with limits that have names where no cost has any. */
export function nameProblems(limits: Readonly<Record<string, unknown>>, cost: unknown): readonly string[] {
  return Object.entries(limits).flatMap(([option, value]) =>
    typeof value === 'object' && value !== null && cost === undefined
      ? [`${option} has names, so there must be a cost that has them`]
      : [],
  );
}

function call<Value>(what: string, job: JobFacts, of: (job: JobFacts) => Value): Value {
  try {
    return of(job);
  } catch (error) {
    throw new Error(`${what} failed for job ${job.id}: ${sayError(error)}`, { cause: error });
  }
}

function sayCost(name: string, amount: unknown): string {
  return name === '' ? String(amount) : `${String(amount)} of ${name}`;
}
