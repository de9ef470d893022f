import type { Attributes, QueueSeen } from '@pgqueue/core';
import type { NodeTasks } from '../connection/tables.ts';
import type { OpenExplain } from './report.ts';
import type { Target } from '../connection/target.ts';

/** A queue's key. */
export interface LaneId {
  readonly queue: string;
  readonly key: string;
}

/** See {@link TickInput.ranges}. */
export type LaneRange = readonly [
  priority: number,
  seq: number,
  toPriority: number,
  toSeq: number,
  moved: boolean,
  free: boolean,
];

/** Where a tick looks for waiting jobs, and for how many. */
export interface TickInput {
  /** The page of lanes begins behind this one, and wraps around. */
  readonly after: LaneId;
  /** Lanes in the page. */
  readonly keys: number;
  /** Jobs wanted altogether, shared out over the page. */
  readonly want: number;
  /** By queue and key: a (priority, seq) behind which jobs of that lane are looked at, too. */
  readonly starts: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;
  /** How many of them. */
  readonly lookahead: number;
  /**
   * By queue and key: of that lane only what lies in these ranges, behind the first (priority, seq) and up to the second; true: only jobs whose
   * rows were changed since they were inserted; true: it is known that none of the jobs there has a work item. In order, without overlaps. Those lanes are in
   * the page like others, whether anything waits in them or not.
   */
  readonly ranges: Readonly<Record<string, Readonly<Record<string, readonly LaneRange[]>>>>;
  /** Lanes to look at, in the page or beside it, and how many jobs of each at least. */
  readonly lanes: readonly (LaneId & { readonly depth: number })[];
  /** Lanes, too, in which a job waits whose id was made in this span of Unix milliseconds; null: none. */
  readonly created: { readonly fromMs: number; readonly toMs: number } | null;
  /** Work items before this position are gone, but for `items`: they are not looked for. 0: looks at all. */
  readonly itemsFrom: number;
  /** Positions before that one which are looked at, too. */
  readonly items: readonly number[];
  /** Whether to read the ended attempts. */
  readonly settled: boolean;
  /** Whether to ask, too, when sweeps are due. */
  readonly due: boolean;
  /** Whether to look, too, for questions why a job waits: behind this number. Default: not. */
  readonly questionsAfter?: number;
}

/** What a tick needs beside its lanes. Times are the database's clock, in Unix milliseconds. */
export interface TickState {
  readonly now: number;
  /** Live ones that take work. */
  readonly nodes: readonly {
    readonly id: string;
    readonly pool: string;
    readonly slots: number;
    readonly tasks: NodeTasks;
    /** How long its jobs take, in milliseconds, by those tasks whose runs are known, and all short. */
    readonly runs: Readonly<Record<string, number>>;
  }[];
  /** Every work item, by pool and by the node that leased it (null: none). */
  readonly items: readonly {
    readonly pool: string;
    readonly node: string | null;
    readonly positions: readonly number[];
  }[];
  /** Those that differ from the defaults. */
  readonly queues: Readonly<Record<string, QueueSeen>>;
  readonly settled: readonly SettledBatch[];
  /** Whether {@link reap} and {@link loseNodes} would find anything. */
  readonly expiredLeases: boolean;
  readonly lostNodes: boolean;
}

/** Attempts that ended together; the lists belong together. */
export interface SettledBatch {
  readonly n: number;
  readonly atMs: number;
  readonly positions: readonly number[];
  readonly verdicts: readonly ('done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'crash')[];
  readonly busyMs: readonly number[];
}

/** Milliseconds until something is due (negative: overdue); null: nothing is. */
export interface TickDue {
  readonly promoteMs: number | null;
  readonly expireMs: number | null;
  readonly cronMs: number | null;
}

/** A lane that was looked at, and one of its waiting jobs; id is null where nothing of it waits without a work item. */
export interface LaneRow extends LaneId {
  /** Whether it belongs to the page; the page's lanes come first, in order. */
  readonly paged: boolean;
  /** Whether it lies behind a place of {@link TickInput.starts}; the first jobs of the lane come before. */
  readonly ahead: boolean;
  /** How many jobs were looked for there. */
  readonly wanted: number;
  /** When the first job of the lane that waits for its retry or the end of its snooze is due; null: none does. */
  readonly retryDueMs: number | null;
  readonly id: string | null;
  readonly seq: number;
  readonly priority: number;
  readonly task: string;
  readonly version: number;
  /** Changes with every change of the job. */
  readonly rowVersion: string;
  readonly createdMs: number;
  readonly expiresMs: number | null;
  readonly tries: number;
  /** It has failed, and one more failed attempt is its last. Default: not. */
  readonly lastTry?: boolean;
  readonly crashes: number;
  /** Null: they can't be read (the SQL function `legible`). */
  readonly attributes: Attributes | null;
}

/** So many batches of ended attempts are in one snapshot at most. */
export const settledMax = 500;

/** A tick's snapshot: what the database knows, all of it at one moment. */
export interface TickRead {
  readonly state: TickState;
  /** Transactions that may commit jobs whose `seq` was drawn before this. Null: not read, without {@link TickInput.ranges}. */
  readonly enqueuers: readonly string[] | null;
  /** Changes with any queue's settings. Null: not read. */
  readonly config: string | null;
  readonly due: TickDue | null;
  readonly rows: readonly LaneRow[];
  /** Open questions why a job waits. */
  readonly questions: readonly OpenExplain[];
}

/** The snapshot of a tick, in one statement: the SQL function `tick`, and what it calls. */
export async function readTick(target: Target, input: TickInput): Promise<TickRead> {
  const [row] = await target.query<{
    readonly state: (TickState & Pick<TickRead, 'enqueuers'> & { readonly config: string }) | null;
    readonly due: TickDue | null;
    readonly questions: readonly OpenExplain[] | null;
    readonly rows: string;
  }>(`select state, due, questions, rows from ${target.schema}.tick($1)`, [JSON.stringify(toRead(input))]);
  if (row === undefined || row.state === null) {
    throw new Error("a tick's snapshot came back without its state");
  }
  const { state, due, questions } = row;
  const rows = (JSON.parse(row.rows) as readonly ListedLane[]).flatMap(toLaneRows);
  return { state, enqueuers: state.enqueuers, config: state.config, due, questions: questions ?? [], rows };
}

/** A part of a lane as the SQL function `look` lists it; without jobs: nothing of it waits without a work item. */
type ListedLane = readonly [
  queue: string,
  key: string,
  paged: boolean,
  ahead: boolean,
  wanted: number,
  retryDueMs: number | null,
  jobs?: readonly ListedJob[],
];

type ListedJob = readonly [
  id: string,
  seq: number,
  priority: number,
  task: string,
  version: number,
  rowVersion: string,
  createdMs: number | null,
  expiresMs?: number | null,
  tries?: number,
  last?: 0 | 1,
  crashes?: number,
  attributes?: Attributes | null,
];

const noAttributes: Attributes = Object.freeze({});
const noJob: ListedJob = ['', 0, 0, '', 0, '', 0];

function toLaneRows(lane: ListedLane): readonly LaneRow[] {
  const jobs = lane[6];
  return jobs === undefined
    ? [toLaneRow(lane, null, noJob)]
    : jobs.map((job) => toLaneRow(lane, job[0], job));
}

function toLaneRow(lane: ListedLane, id: string | null, job: ListedJob): LaneRow {
  return {
    queue: lane[0],
    key: lane[1],
    paged: lane[2],
    ahead: lane[3],
    wanted: lane[4],
    retryDueMs: lane[5],
    id,
    seq: job[1],
    priority: job[2],
    task: job[3],
    version: job[4],
    rowVersion: job[5],
    createdMs: job[6] ?? Number.NaN,
    expiresMs: job[7] ?? null,
    tries: job[8] ?? 0,
    ...(job[9] === 1 && { lastTry: true }),
    crashes: job[10] ?? 0,
    attributes: job[11] === undefined ? noAttributes : job[11],
  };
}

/** The same without waiting jobs, and without what is due: enough where nothing was enqueued since the last look. */
export async function readTickState(
  target: Target,
  { settled, itemsFrom, items }: Pick<TickInput, 'settled' | 'itemsFrom' | 'items'>,
): Promise<TickState> {
  const [row] = await target.query<{ readonly state: TickState | null }>(
    `select ${target.schema}.tick_state($1, $2, $3) as state`,
    [settled, itemsFrom, items],
  );
  if (row === undefined || row.state === null) throw new Error("a tick's state did not come back");
  return row.state;
}

/** The tick's input as its SQL function reads it. */
function toRead(input: TickInput): Readonly<Record<string, unknown>> {
  const [from, to] = idSpan(input.created);
  return {
    settled: input.settled,
    due: input.due,
    ...(input.questionsAfter !== undefined && { questions_after: input.questionsAfter }),
    items_from: input.itemsFrom,
    items: input.items,
    ...input.after,
    keys: input.keys,
    want: input.want,
    starts: input.starts,
    lookahead: input.lookahead,
    named: input.lanes.map(({ queue, key, depth }) => [queue, key, depth]),
    from,
    to,
    ranges: input.ranges,
  };
}

/** The first and the last UUID v7 of a span; for null, a span in which none lies. */
function idSpan(created: TickInput['created']): readonly [string, string] {
  const bound = (ms: number, fill: string): string => {
    const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0').slice(-12);
    const digits = time + fill.repeat(20);
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  };
  if (created === null) return [bound(1, '0'), bound(0, '0')];
  return [bound(created.fromMs, '0'), bound(created.toMs, 'f')];
}

/** In a lane. */
export interface Spot {
  readonly priority: number;
  readonly seq: number;
}

/** A part of a lane: from its begin up to these places, one a priority. */
export interface LanePart {
  readonly lane: LaneId;
  readonly places: readonly Spot[];
}

/** The first job that waits there at each priority, of those whose rows were not changed. It may pass millions of dead rows. */
export async function firstWaiting(target: Target, { lane, places }: LanePart): Promise<readonly Spot[]> {
  return target.query<Spot>(`select priority, seq from ${target.schema}.behind($1, $2, $3, $4)`, [
    lane.queue,
    lane.key,
    places.map(({ priority }) => priority),
    places.map(({ seq }) => seq),
  ]);
}

/** The first so many work items before a position, by theirs. It may pass millions of dead rows. */
export async function itemsBehind(target: Target, before: number, max: number): Promise<readonly number[]> {
  const [row] = await target.query<{ readonly positions: readonly number[] }>(
    `select ${target.schema}.items_behind($1, $2)::float8[] as positions`,
    [before, max],
  );
  return row?.positions ?? [];
}

/** A work item and what its job is: what a scheduler must know of items that it did not write itself. */
export interface ItemFacts extends LaneId {
  readonly position: number;
  readonly pool: string;
  readonly bundle: string | null;
  readonly dispatchedMs: number | null;
  readonly id: string;
  readonly task: string;
  readonly version: number;
  readonly priority: number;
  readonly seq: number;
  readonly createdMs: number;
  readonly expiresMs: number | null;
  readonly attributes: Attributes;
  readonly tries: number;
}

/** Those of the given items that are still there. */
export async function readItemFacts(
  target: Target,
  positions: readonly number[],
): Promise<readonly ItemFacts[]> {
  return target.query<ItemFacts>(
    `select position::float8 as position, pool, bundle, dispatched_ms as "dispatchedMs", id, queue, key, task, version, priority,
            seq::float8 as seq, created_ms as "createdMs", expires_ms as "expiresMs", attributes, tries
     from ${target.schema}.item_facts($1::bigint[])`,
    [positions],
  );
}
