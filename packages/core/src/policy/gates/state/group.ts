import { answerOf } from '../../answer.ts';
import type { Rule } from '../../../options/options.ts';
import { aFunction, aRecordOf, either } from '../../../options/options.ts';
import type { JobGroups } from '../../gate.ts';
import type { JobFacts } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import { sayError } from './format.ts';

/**
 * Value that a job counts under. Null or undefined (a missing attribute): the gate does not concern the job.
 */
export type GroupValue = string | number | boolean | null | undefined;

/**
 * Returns the group of a job. Must depend only on facts that stay the same while the job is in flight, so not
 * on `tries`.
 */
export type GroupBy = (job: JobFacts) => GroupValue;

/**
 * Amount that a job takes: a number, or several by name (`{ tokens: 3, memory: 512 }`). Each is 0 or more.
 */
export type Cost = number | Readonly<Record<string, number>>;

/** Amount that is available: a number, or one for each name that costs may have. */
export type Limit = number | Readonly<Record<string, number>>;

/** Amounts of a cost by name. A plain number has the name ''. */
export type Costs = readonly (readonly [name: string, amount: number])[];

/** Cost of a job if no `cost` is given. */
export const oneJob: Costs = [['', 1]];

/**
 * Returns the value that a job counts under, as text. Null: none.
 * @throws {Error} what `by` throws, with the job named
 */
export function groupOf(by: GroupBy, job: JobFacts): string | null {
  const value = call('by', job, by);
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return storable(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new Error(`by gave neither a text nor a number for job ${job.id}`);
}

/**
 * Replaces NUL characters and unpaired surrogates, which PostgreSQL's JSON refuses. A truncated text can end
 * with half of a surrogate pair.
 */
function storable(text: string): string {
  return (text.includes('\u0000') ? text.replaceAll('\u0000', '\uFFFD') : text).toWellFormed();
}

/**
 * Returns the cost of a job.
 * @throws {Error} what `cost` throws, or if the result is no valid cost, with the job named
 */
export function costsOf(cost: (job: JobFacts) => Cost, job: JobFacts): Costs {
  const value = call('cost', job, cost);
  if (typeof value !== 'number' && !isRecord(value)) {
    throw new Error(
      `cost gave ${typeof value === 'object' ? 'an object of a class' : typeof value} for job ${job.id}, where a number or several by name are expected`,
    );
  }
  const costs: Costs = typeof value === 'number' ? [['', value]] : Object.entries(value);
  for (const [name, amount] of costs) {
    if (!isAmount(amount) || amount === Infinity) {
      throw new Error(`cost gave ${sayCost(name, amount)} for job ${job.id}, where 0 or more is expected`);
    }
  }
  return costs;
}

/**
 * Groups jobs that are alike to a limit: those with the same value and the same cost. `lane`: both depend on
 * the job's queue and key only.
 */
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

/**
 * Returns the part of a limit for one name of a cost.
 * @throws {Error} if the limit has no such name, since a missing limit would never hold a job
 */
export function limitFor(limit: Limit, name: string): number {
  const found = typeof limit === 'number' ? (name === '' ? limit : undefined) : own(limit, name);
  if (found === undefined || !isAmount(found)) {
    throw new Error(`there is no limit for a cost ${name === '' ? 'in plain numbers' : `of ${name}`}`);
  }
  return found;
}

/** Caches the result for each value, so that one answer of a user's function holds for the whole plan. */
export function once<Result>(of: (value: string) => Result): (value: string) => Result {
  const known = new Map<string, { readonly result: Result }>();
  return (value) => {
    const found = known.get(value) ?? { result: of(value) };
    known.set(value, found);
    return found.result;
  };
}

/**
 * Returns what a user's function gave as the limit of a value.
 * @throws {Error} if that is no limit, such as undefined for a value that a table lacks
 */
export function limitGiven(what: string, value: string, given: Limit | null): Limit | null {
  const limit: unknown = answerOf(what, given);
  if (limit === null || isAmount(limit) || isRecord(limit)) return given;
  const whose = value === '' ? '' : ` for ${value}`;
  throw new Error(
    `${what} gave ${sayCost('', limit)}${whose}, where 0 or more, several by name, or null are expected`,
  );
}

/** Reports whether a value may stand as a cost or limit. */
export function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}

/** Returns the rule of an option that is an amount: 0 or more, or more than `above`. */
export function anAmount(above?: number): Rule {
  return {
    expected: above === undefined ? '0 or more' : `more than ${above}`,
    judge: (value) => isAmount(value) && (above === undefined || value > above),
  };
}

/** Returns the rule of an option that is a limit, one for each name of a cost, or a function. */
export function aLimit(above?: number): Rule {
  const amount = anAmount(above);
  return {
    ...either(amount, aRecordOf(amount), aFunction),
    expected: `${amount.expected}, or several such by name, or a function`,
  };
}

/** Reports limits that have names although no `cost` is given. */
export function nameProblems(limits: Readonly<Record<string, unknown>>, cost: unknown): readonly string[] {
  return Object.entries(limits).flatMap(([option, value]) =>
    typeof value === 'object' && value !== null && cost === undefined
      ? [`${option} has names, so there must be a cost that has them`]
      : [],
  );
}

function call<Value>(what: string, job: JobFacts, of: (job: JobFacts) => Value): Value {
  try {
    return answerOf(what, of(job));
  } catch (error) {
    throw new Error(`${what} failed for job ${job.id}: ${sayError(error)}`, { cause: error });
  }
}

/** Reports whether a value is a plain object. A Map or a class has names that Object.entries does not show. */
function isRecord(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function sayCost(name: string, amount: unknown): string {
  return name === '' ? String(amount) : `${String(amount)} of ${name}`;
}
