import type { Candidate, InFlight, JobFacts } from '../../snapshot.ts';
import type { Costs } from './group.ts';
import { oneJob } from './group.ts';

/** Amounts by the name of a cost. Most costs are plain numbers without a name. */
export interface Amounts {
  plain: number;
  named: Map<string, number> | undefined;
}

/** Most that a job of one bundle takes, by value. */
export type Bundle = Map<string, Amounts>;

/** Amounts of a limit that the jobs in flight take. */
export interface Use {
  readonly used: ReadonlyMap<string, Amounts>;
  /** Amounts of jobs in flight whose value is unknown. They count for every value. */
  readonly unknown: Amounts;
  /** Values with a job in flight whose cost is unknown. */
  readonly full: ReadonlySet<string>;
  /** There is a job in flight whose value and cost are both unknown. */
  readonly allFull: boolean;
  /** Value and cost are known for every job in flight. */
  readonly exact: boolean;
  /** Error of the first job whose value or cost is unknown. */
  readonly fault: unknown;
}

/** Functions by which a limit counts. */
export interface Counting {
  readonly groupOf: (job: JobFacts) => string | null;
  /** Null: every job costs one. */
  readonly costsOf: ((job: JobFacts) => Costs) | null;
}

/**
 * Job that a limit was asked about last. Its value and costs are kept, so that a user's function is not called
 * again when the job goes.
 */
export interface AskedJob {
  asked: Candidate | undefined;
  value: string | null;
  costs: Costs;
}

/** Reads the job's value and costs. @throws {Error} if a function of the rules throws */
export function look(limit: AskedJob & { readonly rules: Counting }, job: Candidate): void {
  const { groupOf, costsOf } = limit.rules;
  limit.asked = undefined;
  limit.value = groupOf(job);
  if (limit.value !== null && costsOf !== null) limit.costs = costsOf(job);
  limit.asked = job;
}

/**
 * Keeps counts from one plan to the next. Most jobs in flight stand where they stood, so only the rest is
 * counted again. The counts follow from what is in flight alone.
 *
 * The last returned use is valid until `of` is called again. `current` reports whether a use is still valid.
 */
export interface UseMemory {
  readonly of: (inFlight: readonly InFlight[]) => Use;
  readonly current: (use: Use) => boolean;
}

/** Amounts that one job in flight takes. Null: none. */
type Taken = { readonly value: string; readonly costs: Costs } | null;

interface UseState {
  readonly items: InFlight[];
  readonly taken: Taken[];
  readonly use: Use & { readonly used: Map<string, Amounts> };
}

export function rememberUse(counting: Counting): UseMemory {
  let memory: UseState | undefined;
  let last: Use | undefined;
  return {
    of: (inFlight) => {
      const before = memory;
      // a plan can be broken off: half changed counts are not kept
      memory = undefined;
      const after = before === undefined ? undefined : changed(before, inFlight, counting);
      memory = after ?? counted(inFlight, counting);
      last = memory?.use ?? countUse(inFlight, counting);
      return last;
    },
    current: (use) => use === last,
  };
}

/**
 * Updates the counts. Undefined: an item can't be counted on its own, so everything has to be counted again.
 */
function changed(memory: UseState, inFlight: readonly InFlight[], counting: Counting): UseState | undefined {
  const { items, taken, use } = memory;
  const { used } = use;
  for (let slot = 0; slot < Math.max(items.length, inFlight.length); slot += 1) {
    const item = inFlight[slot];
    if (items[slot] === item) continue;
    const before = taken[slot] ?? null;
    const now = item === undefined ? null : takenBy(item, counting);
    if (now === undefined) return undefined;
    if (before !== null) addTo(used, before, -1);
    if (now !== null) addTo(used, now, 1);
    if (item === undefined) continue;
    items[slot] = item;
    taken[slot] = now;
  }
  items.length = inFlight.length;
  taken.length = inFlight.length;
  // a new object, so that `current` reports an older use as out of date
  return { items, taken, use: { ...use } };
}

function counted(inFlight: readonly InFlight[], counting: Counting): UseState | undefined {
  const used = new Map<string, Amounts>();
  const taken: Taken[] = [];
  for (const item of inFlight) {
    const own = takenBy(item, counting);
    if (own === undefined) return undefined;
    if (own !== null) addTo(used, own, 1);
    taken.push(own);
  }
  const known = {
    unknown: nothing(),
    full: new Set<string>(),
    allFull: false,
    exact: true,
    fault: undefined,
  };
  return { items: [...inFlight], taken, use: { used, ...known } };
}

/**
 * Returns the amounts of an item that can be added and subtracted on its own. Undefined: a function throws,
 * the item shares its cost with others of its bundle, or an amount is no safe integer, so that sums would
 * depend on their order.
 */
function takenBy(item: InFlight, { groupOf, costsOf }: Counting): Taken | undefined {
  if (item.bundle !== null) return undefined;
  try {
    const value = groupOf(item);
    if (value === null) return null;
    const costs = costsOf === null ? oneJob : costsOf(item);
    return costs.every(([, amount]) => Number.isSafeInteger(amount)) ? { value, costs } : undefined;
  } catch {
    return undefined;
  }
}

function addTo(used: Map<string, Amounts>, { value, costs }: NonNullable<Taken>, times: 1 | -1): void {
  const amounts = entryOf(used, value);
  for (const [name, amount] of costs) put(amounts, name, amountOf(amounts, name) + times * amount);
  const { plain, named } = amounts;
  if (plain === 0 && (named === undefined || [...named.values()].every((amount) => amount === 0)))
    used.delete(value);
}

/** Counts all jobs in flight. */
export function countUse(inFlight: readonly InFlight[], { groupOf, costsOf }: Counting): Use {
  const used = new Map<string, Amounts>();
  const unknown = nothing();
  const full = new Set<string>();
  let [allFull, exact, fault]: [boolean, boolean, unknown] = [false, true, undefined];
  const bundles = new Map<string, Bundle>();
  /** Returns undefined if `of` throws. The job has to be counted one way or another. */
  const attempt = <Value>(of: (job: JobFacts) => Value, job: JobFacts): Value | undefined => {
    try {
      return of(job);
    } catch (error) {
      exact = false;
      fault ??= error;
      return undefined;
    }
  };
  for (const item of inFlight) {
    const value = attempt(groupOf, item);
    if (value === null) continue;
    const costs = costsOf === null ? oneJob : attempt(costsOf, item);
    if (costs === undefined) {
      if (value === undefined) allFull = true;
      else full.add(value);
    } else if (value === undefined) {
      for (const [name, amount] of costs) put(unknown, name, amountOf(unknown, name) + amount);
    } else {
      addUse(used, value, { costs, bundle: bundleOf(bundles, item.bundle) });
    }
  }
  return { used, unknown, full, allFull, exact, fault };
}

function nothing(): Amounts {
  return { plain: 0, named: undefined };
}

export function amountOf(amounts: Amounts | undefined, name: string): number {
  if (amounts === undefined) return 0;
  return name === '' ? amounts.plain : (amounts.named?.get(name) ?? 0);
}

function put(amounts: Amounts, name: string, amount: number): void {
  if (name === '') amounts.plain = amount;
  else (amounts.named ??= new Map()).set(name, amount);
}

function bundleOf(bundles: Map<string, Bundle>, id: string | null): Bundle | undefined {
  if (id === null) return undefined;
  const bundle = bundles.get(id) ?? new Map<string, Amounts>();
  bundles.set(id, bundle);
  return bundle;
}

/** Adds the amounts that a job takes beyond those that its bundle has already taken. */
export function addUse(
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
  const amounts = nothing();
  all.set(value, amounts);
  return amounts;
}
