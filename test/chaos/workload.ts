// The producers' requests: pure functions of the seed and a number, so that a run can be repeated.
import { createHash } from 'node:crypto';

export const tenants = 8;
/** Limit of the dispatches of queue `metered`. */
export const meteredRate = { perSecond: 20, burst: 5 } as const;
/** Limit of concurrent work items for each tenant. */
export const tenantMax = 40;
export const orderedKeys = 48;
/** Milliseconds of a lease of all jobs but those of one to three seconds, whose leases are twice as long. */
export const leaseMs = 2_000;

export type JobKind = 'short' | 'medium' | 'long' | 'effect' | 'poison';

/** One job of the workload. */
export interface JobSpec {
  readonly n: number;
  readonly id: string;
  readonly kind: JobKind;
  readonly tenant: string;
  readonly queue: 'default' | 'ledger' | 'metered';
  readonly key: string;
  /** Milliseconds that its handler takes. */
  readonly ms: number;
  /** Number of tries that fail before one succeeds; 99: all of them. */
  readonly fails: number;
  /** Characters of padding in its payload. */
  readonly pad: number;
  readonly cancel: boolean;
}

export type OpKind = 'single' | 'batch' | 'sql' | 'transaction' | 'rollback';

/** One operation of a producer: some jobs, enqueued by one statement or in one transaction. */
export interface OpSpec {
  readonly name: string;
  readonly kind: OpKind;
  readonly jobs: readonly JobSpec[];
  /** Seconds to pause before the operation, at a rate of one job a second. */
  readonly pause: number;
}

/**
 * Returns a generator of numbers from 0 to 1, seeded by names: equal names give equal numbers, and no call
 * depends on another.
 */
export function chances(...names: readonly (string | number)[]): () => number {
  let bytes = createHash('sha256').update(names.join(' ')).digest();
  let at = 0;
  return () => {
    if (at + 4 > bytes.length) {
      bytes = createHash('sha256').update(bytes).digest();
      at = 0;
    }
    at += 4;
    return bytes.readUInt32BE(at - 4) / 2 ** 32;
  };
}

/** Share of each tenant: 1 / (i + 1), after Zipf's law of words. */
const zipf = Array.from({ length: tenants }, (_, index) => 1 / (index + 1));
const zipfSum = zipf.reduce((sum, share) => sum + share, 0);

function tenantOf(chance: number): number {
  let left = chance * zipfSum;
  const found = zipf.findIndex((share) => (left -= share) < 0);
  return found === -1 ? tenants - 1 : found;
}

const between = (random: () => number, from: number, to: number): number => from + random() * (to - from);

/**
 * Draws a kind: 90 % take 5 to 50 ms, 9 % one to three seconds, 1 % more than three leases. Some of the first
 * write in `ctx.transaction`.
 */
function kindOf(random: () => number, poisonShare: number): { readonly kind: JobKind; readonly ms: number } {
  const chance = random();
  if (chance < poisonShare) return { kind: 'poison', ms: 0 };
  if (chance < 0.01) return { kind: 'long', ms: between(random, 3.2, 4) * leaseMs };
  if (chance < 0.1) return { kind: 'medium', ms: between(random, 1_000, 3_000) };
  return { kind: chance < 0.3 ? 'effect' : 'short', ms: between(random, 5, 50) };
}

/** Draws the padding: most payloads are small; one in a thousand is as large as a payload may be. */
function padOf(random: () => number): number {
  const chance = random();
  if (chance < 0.001) return 250_000;
  if (chance < 0.02) return Math.round(between(random, 4_000, 40_000));
  return Math.round(between(random, 0, 400));
}

export interface Workload {
  readonly seed: number;
  /** Share of all jobs that kill the process they run in. */
  readonly poisonShare: number;
}

export function jobSpec({ seed, poisonShare }: Workload, producer: string, n: number): JobSpec {
  const random = chances(seed, producer, 'job', n);
  const tenant = tenantOf(random());
  const { kind, ms } = kindOf(random, poisonShare);
  const place = random();
  const quick = kind === 'short' || kind === 'effect';
  const queue = quick && place < 0.1 ? 'ledger' : quick && place < 0.18 ? 'metered' : 'default';
  const failing = random() < 0.05 && kind !== 'poison' && kind !== 'long';
  return {
    n,
    id: idOf(seed, producer, n),
    kind,
    tenant: `tenant-${tenant}`,
    queue,
    key: queue === 'ledger' ? `account-${Math.floor(random() * orderedKeys)}` : `tenant-${tenant}`,
    ms: Math.round(ms),
    fails: !failing ? 0 : random() < 0.2 ? 99 : 1 + Math.floor(random() * 2),
    pad: padOf(random),
    cancel: random() < 0.005,
  };
}

/** Returns a UUID of version 8, the version for application-defined ids. */
function idOf(...names: readonly (string | number)[]): string {
  const hex = createHash('sha256').update(names.join(' ')).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-9${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Returns a producer's operation number `op`. Its first job has the number `from`. */
export function opSpec(workload: Workload, producer: string, op: number, from: number): OpSpec {
  const random = chances(workload.seed, producer, 'op', op);
  const chance = random();
  const kind: OpKind =
    chance < 0.2
      ? 'single'
      : chance < 0.25
        ? 'sql'
        : chance < 0.35
          ? 'transaction'
          : chance < 0.4
            ? 'rollback'
            : 'batch';
  const count = kind === 'single' ? 1 : 1 + Math.floor(random() * (kind === 'batch' ? 24 : 6));
  return {
    name: `${producer}-${op}`,
    kind,
    jobs: Array.from({ length: count }, (_, index) => jobSpec(workload, producer, from + index)),
    pause: kind === 'rollback' ? 0 : count * between(random, 0.5, 1.5),
  };
}
