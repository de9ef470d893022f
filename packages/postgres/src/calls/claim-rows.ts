import type { ClaimedJob } from '@pgqueue/core/internal';
import type { ClaimInput } from './claim.ts';
import type { Target } from '../connection/target.ts';
import { relaxed } from '../connection/target.ts';

/** A claimed work item: the work that one slot takes at a time. */
export interface ClaimedRow {
  readonly position: number;
  /** Number of its jobs, read or not. More than one: a batch, which is settled whole. */
  readonly size: number;
  /** In the order in which they are to run. */
  readonly jobs: readonly ClaimedJob[];
  /** True for a job that was lost with its node before: the node may begin others only later, or after it. */
  readonly suspect: boolean;
}

/** Result of one claim. */
export interface ClaimedRows {
  readonly rows: readonly ClaimedRow[];
  /**
   * The claim reached the maximum of jobs or of bytes: fewer rows than were asked for then don't say that no
   * more items are ready.
   */
  readonly full: boolean;
}

/** Input of a claim: up to `max` work items, and up to `ahead` batches more. */
export interface ClaimRowsInput extends Required<ClaimInput> {
  readonly ahead: number;
}

/** A job as the SQL function `claim_rows` lists it. */
type Listed = readonly [
  id: string,
  queue: string,
  task: string,
  key: string | null,
  priority: number | null,
  attributes: ClaimedJob['attributes'] | null,
  payload: unknown,
  payloadVersion: number,
  tries: number | null,
  maxTries: number,
  crashes: number | null,
  retry: ClaimedJob['retry'],
  trace: ClaimedJob['trace'],
  created: number,
  timeoutS: number | null,
  checkpoint: unknown,
];

/** A job whose other columns have their usual values. */
type Plain = readonly [
  id: string,
  queue: string,
  task: string,
  key: string,
  created: number,
  payload: unknown,
];

/**
 * Limits from which on a claim may have been cut, in jobs and in bytes of text: the SQL function
 * `within_bytes`.
 */
const jobsMax = 1_000;
const bytesMax = 32 * 1_048_576;
/** Up to three bytes of UTF-8 for each UTF-16 unit of a text's length. */
const unitBytesMax = 3;

/**
 * Time that a batch is leased for beyond its jobs' timeout, in milliseconds: the SQL function `lease_all`.
 */
const graceMs = 1_000;

/**
 * Takes leases in dispatch order, of batches as a whole: the SQL function `claim_rows`. Commits
 * asynchronously, as `claim` does.
 * @throws PQ001 when the node was reset, lost or replaced
 */
export async function claimRows(target: Target, input: ClaimRowsInput): Promise<ClaimedRows> {
  const { node, incarnation, max, token, from, reap, ahead } = input;
  const text = relaxed(`${target.schema}.claim_rows($1, $2, $3, $4)`).replace('f.*', columns);
  const claimed = await target.query<{
    readonly position: number;
    readonly size: number;
    readonly leaseMs: number;
    readonly bundle: string | null;
    readonly jobs: string | null;
    readonly suspect: boolean;
  }>(text, [node, incarnation, token, JSON.stringify({ max, ahead, from, reap })]);
  const rows = claimed
    .map(({ position, size, leaseMs, bundle, jobs, suspect }): ClaimedRow => {
      const listed = JSON.parse(jobs ?? '[]') as readonly (Listed | Plain)[];
      const own = size > 1 && bundle === null;
      const timeoutMs = own ? leaseMs - graceMs : leaseMs;
      const common = { token, position, bundle, timeoutMs, own };
      const toOne = (job: Listed | Plain): ClaimedJob =>
        job.length === 6 ? toPlain(job, common) : toJob(job, common);
      return { position, size, jobs: listed.map(toOne), suspect };
    })
    .filter(({ jobs }) => jobs.length > 0)
    .toSorted((a, b) => a.position - b.position);
  return { rows, full: isFull(claimed) };
}

function isFull(rows: readonly { readonly size: number; readonly jobs: string | null }[]): boolean {
  let [jobs, units] = [0, 0];
  for (const row of rows) {
    jobs += row.size;
    units += row.jobs?.length ?? 0;
  }
  return jobs >= jobsMax || units * unitBytesMax >= bytesMax;
}

const columns = `f."position"::float8 as "position", f.size, f.lease_ms as "leaseMs", f.bundle, f.jobs, f.suspect`;

interface Common {
  readonly token: string;
  readonly position: number;
  readonly bundle: string | null;
  readonly timeoutMs: number;
  readonly own: boolean;
}

function toPlain(
  [id, queue, task, key, created, payload]: Plain,
  { token, position, bundle, timeoutMs }: Common,
): ClaimedJob {
  return {
    id,
    token,
    position,
    queue,
    task,
    key,
    priority: 0,
    attributes: noAttributes,
    payload,
    payloadVersion: 1,
    tries: 0,
    maxTries: 20,
    crashes: 0,
    retry: null,
    trace: null,
    created: new Date(created),
    leaseMs: timeoutMs,
    bundle,
    checkpoint: null,
  };
}

const noAttributes: ClaimedJob['attributes'] = Object.freeze({});

function toJob(
  [
    id,
    queue,
    task,
    key,
    priority,
    attributes,
    payload,
    payloadVersion,
    tries,
    maxTries,
    crashes,
    retry,
    trace,
    created,
    timeoutS,
    checkpoint,
  ]: Listed,
  common: Common,
): ClaimedJob {
  return {
    id,
    token: common.token,
    position: common.position,
    queue,
    task,
    key: key ?? '',
    priority: priority ?? 0,
    attributes: attributes ?? {},
    payload,
    payloadVersion,
    tries: tries ?? 0,
    maxTries,
    crashes: crashes ?? 0,
    retry,
    trace,
    created: new Date(created),
    leaseMs: common.own && timeoutS !== null ? timeoutS * 1_000 : common.timeoutMs,
    bundle: common.bundle,
    checkpoint,
  };
}
