import type { Json } from '../../../job/job.ts';
import type { Gate, OpenGate, Verdict } from '../../gate.ts';
import type { Written } from '../../policy.ts';
import { neverMs } from '../../policy.ts';
import type { Candidate, JobFacts, Rate, Snapshot } from '../../snapshot.ts';
import { own } from '../../snapshot.ts';
import type { Bucket, Buckets } from './buckets.ts';
import { charge, forgettable, fullBucket, levelAt, present, readyMs, savedBuckets } from './buckets.ts';
import { oneJob } from './group.ts';
import { unlimited } from './unlimited.ts';
import type { AskedJob, Counting } from './use.ts';
import { look } from './use.ts';
import { sayError, sayMs, sayNumber, sayRate } from './format.ts';

/** Rules of a rate limit, for one plan. */
export interface BucketRules extends Counting {
  /** Returns the rate of a value, for one name of the costs. Null: no limit. */
  readonly rateOf: (value: string, name: string) => Rate | null;
  readonly label: (job: JobFacts, value: string) => string;
  /** Set when values may be keys. Default false. */
  readonly byKey?: boolean;
  /** Explains why a job is held. Default: the rate, and how much is left of it. */
  readonly explain?: (() => string) | undefined;
  readonly held: Exclude<Verdict, 'admit'>;
}

/** Amount that one job of a plan took from one bucket. */
type BucketCharge = readonly [bucket: string, amount: number];

/**
 * Charges of each plan by job, keyed by the plan's state.
 *
 * They are not part of the state, since they would add ids to every saved state. A state without charges
 * comes from a new leader and was saved with its batch. It counts as written in full, which never charges too
 * little.
 */
const chargesOf = new WeakMap<object, ReadonlyMap<string, readonly BucketCharge[]>>();

/**
 * Returns the parts of a gate whose state is token buckets. `rules` returns null when no rate applies at
 * present.
 */
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
      return found === null ? unlimited : openBuckets(found, snapshot, state as Buckets);
    },
    written: (state, written) => writeBuckets(state as Buckets, written),
  };
}

/** Restores saved buckets. Everything that the last leader planned counts as written. */
export function restoreBuckets(saved: Json, savedMs: number): Buckets {
  const buckets = Object.entries(savedBuckets(saved));
  return Object.fromEntries(buckets.map(([key, bucket]) => [key, chargeSpent(bucket, savedMs)]));
}

/** Charges the amount that the last plan spent, as of `atMs`. */
function chargeSpent(bucket: Bucket, atMs: number): Bucket {
  const spent = bucket[4] ?? 0;
  return spent === 0 ? bucket : charge(bucket, atMs, spent);
}

/**
 * Charges the buckets for the jobs that were written. Each charge takes effect at the time of the write, by
 * the clock that the rate is measured with, so no token is lost between two plans.
 */
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
    const [level, sinceMs, perSecond, burst, spent = 0] = bucket;
    if (spent === 0) {
      after[key] = bucket;
      continue;
    }
    changed = true;
    const written = charges === undefined ? spent : (took.get(key) ?? 0);
    // none of these jobs was written: the bucket stays as it was
    after[key] = written === 0 ? [level, sinceMs, perSecond, burst] : charge(bucket, atMs, written);
  }
  return changed ? after : state;
}

/** Returns the buckets without those that need not be stored. The same object is returned if all must be. */
export function withoutFull(state: Buckets, nowMs: number): Buckets {
  const isFull = (key: string): boolean => {
    const bucket = state[key];
    return bucket === undefined || forgettable(bucket, nowMs);
  };
  const keys = Object.keys(state);
  if (!keys.some(isFull)) return state;
  const after = noBuckets();
  for (const key of keys) {
    const bucket = state[key];
    if (bucket !== undefined && !isFull(key)) after[key] = bucket;
  }
  return after;
}

/**
 * Returns an empty record to fill. Filling 10,000 buckets at each plan this way is three times as fast as
 * Object.fromEntries. The record inherits nothing, so any name is safe.
 */
function noBuckets(): Record<string, Bucket> {
  return { __proto__: null } as unknown as Record<string, Bucket>;
}

/** Buckets during one plan. */
interface Open extends AskedJob {
  readonly rules: BucketRules;
  readonly nowMs: number;
  readonly before: Buckets;
  readonly empty: boolean;
  /**
   * Buckets that were looked up and are stored, or that this plan charged; their levels are those before its
   * charges.
   */
  readonly seen: Map<string, Bucket>;
  readonly spent: Map<string, number>;
  readonly charges: Map<string, readonly BucketCharge[]>;
  /** A bucket has another rate than before, or the clock was set back. */
  changed: boolean;
  /** Least amount that a held job needs, by bucket. */
  readonly held: Map<string, number>;
}

/** Bucket that does not hold enough for a job. */
interface Short {
  readonly key: string;
  readonly value: string;
  readonly name: string;
  readonly amount: number;
  readonly left: number;
  readonly rate: Rate;
  readonly readyMs: number | null;
}

export function openBuckets(
  made: BucketRules,
  { nowMs, moving = [] }: Pick<Snapshot, 'nowMs' | 'moving'>,
  before: Buckets,
): OpenGate {
  const { groupOf, costsOf, rateOf, label, explain: say, held } = made;
  // one object shape for all callers keeps property access fast
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
  if (made.byKey === true) for (const key of moving) emptyOne(open, key);
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

/**
 * Empties the bucket of a key that moves here: the installation that it comes from may have used a whole burst a moment
 * ago. So over any window, both together dispatch no more than one does.
 */
function emptyOne(open: Open, key: string): void {
  let rate: Rate | null;
  try {
    rate = open.rules.rateOf(key, '');
  } catch {
    return; // a rate for other values, or one with several costs: it begins anew
  }
  if (rate === null) return;
  const { nowMs, seen, spent } = open;
  const level = levelAt(bucketOf(open, key, rate) ?? fullBucket(rate, nowMs), nowMs);
  seen.set(key, [Math.min(0, level), nowMs, rate.perSecond, rate.burst]);
  spent.set(key, 0); // kept with what this plan takes, although it is nothing
}

/**
 * Returns the time at which the job may go, in Unix milliseconds, or null if it is not known. A burst that is
 * too small stays so (`neverMs`), unless the rules give their own reason.
 */
function endOf({ explain: ownReason }: BucketRules, short: Short | undefined): number | null {
  if (short === undefined) return null;
  return short.readyMs ?? (ownReason === undefined ? neverMs : null);
}

/**
 * Returns the bucket that will be the last to hold enough for the job, of all buckets that the job takes
 * from. Undefined: all of them hold enough.
 * @throws {Error} if a function of the rules throws
 */
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

/** Returns the first time at which a bucket holds enough for a held job, after all that this plan spent. */
function nextMs({ held, seen, spent, nowMs }: Open): number | null {
  let first = Infinity;
  for (const [key, amount] of held) {
    const bucket = seen.get(key);
    // a full bucket that does not hold enough never will
    if (bucket === undefined) continue;
    first = Math.min(first, readyMs(charge(bucket, nowMs, spent.get(key) ?? 0), amount) ?? Infinity);
  }
  return first === Infinity ? null : first;
}

function later(a: number | null, b: number | null): boolean {
  return b !== null && (a === null || a > b);
}

/** Returns the bucket at its present rate. Undefined: the bucket is not stored, so it is full. */
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
  const ofJob: BucketCharge[] = [];
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

/**
 * Returns the buckets with this plan's charges, without those that are full. The same object is returned if
 * nothing changed.
 */
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
