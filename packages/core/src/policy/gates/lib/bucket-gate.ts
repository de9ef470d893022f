import type { Json } from '../../../job/job.ts';
import type { Gate, OpenGate, Verdict } from '../../gate.ts';
import type { Written } from '../../policy.ts';
import { neverMs } from '../../policy.ts';
import type { Candidate, JobFacts, Rate, Snapshot } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import type { Bucket, Buckets } from './buckets.ts';
import { charge, forgettable, fullBucket, levelAt, present, readyMs, savedBuckets } from './buckets.ts';
import type { Costs } from './group.ts';
import { oneJob } from './group.ts';
import { unlimited } from './unlimited.ts';
import { sayError, sayMs, sayNumber, sayRate } from './format.ts';

/** What makes a rate limit, for one plan. */
export interface BucketRules {
  readonly groupOf: (job: JobFacts) => string | null;
  /** Null: one each. */
  readonly costsOf: ((job: JobFacts) => Costs) | null;
  /** Of one name of the costs; null: no limit. */
  readonly rateOf: (value: string, name: string) => Rate | null;
  readonly label: (job: JobFacts, value: string) => string;
  /** Of a job that is held; default: the rate, and what is left of it. */
  readonly explain?: (() => string) | undefined;
  readonly held: Exclude<Verdict, 'admit'>;
}

/** What one job of a plan took: of which bucket, how much. */
type Charge = readonly [bucket: string, amount: number];

/**
 * The charges of each plan by job, beside its state, not in it: they would make every saved state some ids longer. A state that
 * comes without them (a new leader's) was saved with its batch: it counts as written in full, which is never too little.
 */
const chargesOf = new WeakMap<object, ReadonlyMap<string, readonly Charge[]>>();

/** The parts of a gate that keeps token buckets as its state. `rules`: null where nothing has a rate at present. */
export function bucketGate(
  name: string,
  rules: (snapshot: Snapshot) => BucketRules | null,
): Gate & Required<Pick<Gate, 'initial' | 'written' | 'restore'>> {
  return {
    name,
    onError: 'hold',
    initial: {},
    restore: restoreBuckets,
    open: (snapshot, state) => {
      const found = rules(snapshot);
      return found === null ? unlimited : openBuckets(found, snapshot.nowMs, state as Buckets);
    },
    written: (state, written) => writeBuckets(state as Buckets, written),
  };
}

/** All that the last leader planned counts as written. */
export function restoreBuckets(saved: Json, savedMs: number): Buckets {
  const buckets = Object.entries(savedBuckets(saved));
  return Object.fromEntries(buckets.map(([key, bucket]) => [key, settled(bucket, savedMs)]));
}

/** After what was spent of it was written. */
function settled(bucket: Bucket, atMs: number): Bucket {
  const spent = bucket[4] ?? 0;
  return spent === 0 ? bucket : charge(bucket, atMs, spent);
}

/** Anchored at the time of the write, by the clock that the rate is measured with: no token is lost between two plans. */
export function writeBuckets(state: Buckets, { atMs, ids }: Written): Buckets {
  const charges = chargesOf.get(state);
  const took = new Map<string, number>();
  for (const [id, ofJob] of charges ?? []) {
    if (!ids.has(id)) continue;
    for (const [key, amount] of ofJob) took.set(key, (took.get(key) ?? 0) + amount);
  }
  let changed = false;
  const after = noBuckets();
  for (const key of Object.keys(state)) {
    const bucket = state[key];
    if (bucket === undefined) continue;
    const [level, sinceMs, perSecond, burst, planned = 0] = bucket;
    if (planned === 0) {
      after[key] = bucket;
      continue;
    }
    changed = true;
    const spent = charges === undefined ? planned : (took.get(key) ?? 0);
    // of which nothing was written: it stays as it was
    after[key] = spent === 0 ? [level, sinceMs, perSecond, burst] : charge(bucket, atMs, spent);
  }
  return changed ? after : state;
}

/** To be filled: 10,000 at each plan, three times as fast as by Object.fromEntries. Inherits nothing, so that any name will do. */
function noBuckets(): Record<string, Bucket> {
  return { __proto__: null } as unknown as Record<string, Bucket>;
}

/** The buckets during one plan. */
interface Open {
  readonly rules: BucketRules;
  readonly nowMs: number;
  readonly before: Buckets;
  readonly empty: boolean;
  /** Those that were looked at and are not full, before what this plan spent. */
  readonly seen: Map<string, Bucket>;
  readonly spent: Map<string, number>;
  readonly charges: Map<string, readonly Charge[]>;
  /** A bucket has another rate than before, or the clock was set back. */
  changed: boolean;
  /** The job that was asked about last: a user's function is not asked again when it goes. */
  asked: Candidate | undefined;
  value: string | null;
  costs: Costs;
  /** By bucket: the least that a held job takes of it. */
  readonly held: Map<string, number>;
}

/** Where a job does not fit. */
interface Short {
  readonly key: string;
  readonly value: string;
  readonly name: string;
  readonly amount: number;
  readonly left: number;
  readonly rate: Rate;
  readonly readyMs: number | null;
}

export function openBuckets(made: BucketRules, nowMs: number, before: Buckets): OpenGate {
  const { groupOf, costsOf, rateOf, label, explain: say, held } = made;
  // of one shape, whoever made them
  const rules = { groupOf, costsOf, rateOf, label, explain: say, held };
  const open: Open = {
    rules,
    nowMs,
    before,
    empty: Object.keys(before).length === 0,
    seen: new Map(),
    spent: new Map(),
    charges: new Map(),
    changed: false,
    asked: undefined,
    value: null,
    costs: oneJob,
    held: new Map(),
  };
  return {
    admits: (job) => {
      const short = findShort(open, job);
      if (short === undefined) return 'admit';
      open.held.set(short.key, Math.min(short.amount, open.held.get(short.key) ?? Infinity));
      return rules.held;
    },
    take: (job) => spend(open, job),
    why: (job) => {
      try {
        const short = findShort(open, job);
        return { message: explain(open, job, short), untilMs: endOf(rules, short) };
      } catch (error) {
        return { message: sayError(error), untilMs: null };
      }
    },
    nextMs: () => nextMs(open),
    state: () => stateOf(open),
  };
}

/** A burst that is too small stays so, unless the rules have their own reason for it. */
function endOf({ explain: ownReason }: BucketRules, short: Short | undefined): number | null {
  if (short === undefined) return null;
  return short.readyMs ?? (ownReason === undefined ? neverMs : null);
}

/** @throws {Error} what the rules throw */
function look(open: Open, job: Candidate): void {
  const { groupOf, costsOf } = open.rules;
  open.asked = undefined;
  open.value = groupOf(job);
  if (open.value !== null && costsOf !== null) open.costs = costsOf(job);
  open.asked = job;
}

/** Of the buckets from which a job takes, the one that holds enough last of all. @throws {Error} what the rules throw */
function findShort(open: Open, job: Candidate): Short | undefined {
  look(open, job);
  const { rules, nowMs, spent, value, costs } = open;
  if (value === null) return undefined;
  let worst: Short | undefined;
  for (const [name, amount] of costs) {
    const rate = rules.rateOf(value, name);
    if (rate === null || amount === 0) continue;
    const key = bucketName(value, name);
    const bucket = bucketOf(open, key, rate);
    const gone = spent.get(key) ?? 0;
    const left = (bucket === undefined ? rate.burst : levelAt(bucket, nowMs)) - gone;
    if (left >= amount) continue;
    const ready = readyMs(charge(bucket ?? fullBucket(rate, nowMs), nowMs, gone), amount);
    const short = { key, value, name, amount, left, rate, readyMs: ready };
    if (worst === undefined || later(short.readyMs, worst.readyMs)) worst = short;
  }
  return worst;
}

/** After all that the plan spent. */
function nextMs({ held, seen, spent, nowMs }: Open): number | null {
  let first = Infinity;
  for (const [key, amount] of held) {
    const bucket = seen.get(key);
    // full, and not enough: it never will be
    if (bucket === undefined) continue;
    first = Math.min(first, readyMs(charge(bucket, nowMs, spent.get(key) ?? 0), amount) ?? Infinity);
  }
  return first === Infinity ? null : first;
}

function later(a: number | null, b: number | null): boolean {
  return b !== null && (a === null || a > b);
}

/** Undefined: it is not remembered, so it is full. */
function bucketOf(open: Open, key: string, rate: Rate): Bucket | undefined {
  const { seen, before, empty, nowMs } = open;
  const known = seen.get(key);
  if (known !== undefined || empty) return known;
  const was = own(before, key);
  if (was === undefined) return undefined;
  const bucket = present(was, rate, nowMs);
  seen.set(key, bucket);
  open.changed ||= bucket !== was;
  return bucket;
}

function bucketName(value: string, name: string): string {
  return name === '' ? value : `${name.length}:${name}${value}`;
}

function spend(open: Open, job: Candidate): void {
  if (open.asked !== job) look(open, job);
  const { rules, seen, spent, charges, nowMs, value, costs } = open;
  if (value === null) return;
  const ofJob: Charge[] = [];
  for (const [name, amount] of costs) {
    const rate = rules.rateOf(value, name);
    if (rate === null || amount === 0) continue;
    const key = bucketName(value, name);
    if (bucketOf(open, key, rate) === undefined) seen.set(key, fullBucket(rate, nowMs));
    spent.set(key, (spent.get(key) ?? 0) + amount);
    ofJob.push([key, amount]);
  }
  if (ofJob.length > 0) charges.set(job.id, ofJob);
}

/** With what this plan spent, and without the buckets that are full. The same object where nothing changed. */
function stateOf({ before, seen, spent, charges, nowMs, changed }: Open): Json {
  if (spent.size === 0 && !changed) return before;
  const after = noBuckets();
  for (const key of Object.keys(before)) {
    const bucket = seen.get(key) ?? before[key];
    if (bucket !== undefined && !forgettable(bucket, nowMs)) after[key] = bucket;
  }
  for (const [key, amount] of spent) {
    const [level, sinceMs, perSecond, burst] = seen.get(key) ?? [0, nowMs, 0, 0];
    after[key] = [level, sinceMs, perSecond, burst, amount];
  }
  chargesOf.set(after, charges);
  return after;
}

function explain({ rules, nowMs }: Open, job: Candidate, short: Short | undefined): string {
  if (short === undefined) return 'it may go';
  if (rules.explain !== undefined) return rules.explain();
  const { value, name, amount, left, rate, readyMs: atMs } = short;
  const what = name === '' ? '' : ` ${name}`;
  const limit = `${sayRate(rate.perSecond, what)} with a burst of ${sayNumber(rate.burst)}`;
  const numbers = `${rules.label(job, value)} is at its rate of ${limit}: ${sayNumber(Math.max(0, left))} left`;
  const takes = amount === 1 && name === '' ? '' : `, this job takes ${sayNumber(amount)}`;
  if (amount > rate.burst) return `${numbers}${takes}, so it never goes until that burst is raised`;
  return `${numbers}${takes}${atMs === null ? '' : `; enough in ${sayMs(Math.max(0, atMs - nowMs))}`}`;
}
