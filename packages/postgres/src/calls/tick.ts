import type { Attributes, JobFacts, QueueSeen } from '@pgqueue/core';
import type { NodeTasks } from '../connection/tables.ts';
import type { OpenExplain } from './report.ts';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

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

/** Input of a tick: the lanes to read, and the number of jobs. */
export interface TickInput {
  /** The page of lanes begins behind this one, and wraps around. */
  readonly after: LaneId;
  /** Queues that the page leaves out. Default: none. */
  readonly skip?: readonly string[];
  /** Number of lanes in the page. */
  readonly keys: number;
  /** Number of jobs wanted altogether, shared out over the page. */
  readonly want: number;
  /** By queue and key: the (priority, seq) behind which the lookahead reads more jobs of that lane. */
  readonly starts: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;
  /** Number of jobs of the lookahead. */
  readonly lookahead: number;
  /**
   * By queue and key: sorted, disjoint ranges of that lane to read, each from behind the first (priority,
   * seq) up to the second. `moved`: only jobs whose rows were changed since they were inserted. `free`: no
   * job there has a work item, as far as the leader knows. These lanes are always in the page, even if
   * nothing waits in them.
   */
  readonly ranges: Readonly<Record<string, Readonly<Record<string, readonly LaneRange[]>>>>;
  /** Lanes to read in any case, and the least number of jobs of each. */
  readonly lanes: readonly (LaneId & { readonly depth: number })[];
  /** Span of Unix milliseconds: also reads lanes in which a job waits whose id was made in it; null: none. */
  readonly created: { readonly fromMs: number; readonly toMs: number } | null;
  /** Work items before this position are gone, except for `items`, and are not read. 0: reads all. */
  readonly itemsFrom: number;
  /** Positions before `itemsFrom` that are read, too. */
  readonly items: readonly number[];
  /** Reads the ended attempts. */
  readonly settled: boolean;
  /** Reads when sweeps are due. */
  readonly due: boolean;
  /** Reads the open questions (why a job waits) behind this number. Default: none. */
  readonly questionsAfter?: number;
}

/** A tick's state beside its lanes. Times are the database's clock, in Unix milliseconds. */
export interface TickState {
  readonly now: number;
  /** Live nodes that take work. */
  readonly nodes: readonly {
    readonly id: string;
    readonly pool: string;
    readonly slots: number;
    readonly tasks: NodeTasks;
    /**
     * Run time of the node's jobs in milliseconds, by task: only tasks whose runs are known, and all short.
     */
    readonly runs: Readonly<Record<string, number>>;
  }[];
  /**
   * Work items by pool and by the node that leased them. `node`: null if ready, empty for a suspect without a
   * lease.
   */
  readonly items: readonly {
    readonly pool: string;
    readonly node: string | null;
    readonly positions: readonly number[];
  }[];
  /** Queues that have settings of their own. */
  readonly queues: Readonly<Record<string, QueueSeen>>;
  /** Keys that are held while they move between installations. Null: none is. */
  readonly moving?: readonly MovingKey[] | null;
  readonly settled: readonly SettledBatch[];
  /** {@link reap} would find expired leases. `lostNodes`: {@link loseNodes} would find nodes. */
  readonly expiredLeases: boolean;
  readonly lostNodes: boolean;
}

/** A key that is held. `over`: its move is over, and the hold ends by {@link endHolds}. */
export interface MovingKey {
  readonly key: string;
  readonly over: boolean;
}

/** Attempts that ended together. */
export interface SettledBatch {
  readonly n: number;
  readonly atMs: number;
  readonly positions: readonly number[];
  /** The number of jobs of each position; null: one each. */
  readonly sizes: readonly number[] | null;
  /** One for each job, in the order of the positions; null: all are done. */
  readonly verdicts: readonly ('done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'crash')[] | null;
  /** Run time of each job, in the order of the positions. */
  readonly busyMs: readonly number[];
}

/** Milliseconds until something is due (negative: overdue); null: nothing is. */
export interface TickDue {
  readonly promoteMs: number | null;
  readonly expireMs: number | null;
  readonly cronMs: number | null;
  /** Milliseconds until the next timer or deadline of a flow. */
  readonly flowsMs: number | null;
}

/** A lane that was read: its first jobs that wait without a work item, in order. */
export interface LaneRead extends LaneId {
  /** The lane belongs to the page; the page's lanes come first, in order. */
  readonly paged: boolean;
  /** Number of jobs that were looked for. */
  readonly wanted: number;
  /** Due time of the first job of the lane that waits for a retry or the end of a snooze; null: none does. */
  readonly retryDueMs: number | null;
  readonly jobs: readonly LaneJob[];
  /** Jobs behind a place of {@link TickInput.starts}. Undefined: there is no such place in this lane. */
  readonly ahead?: readonly LaneJob[];
}

/** A waiting job as a tick reads it. */
export interface LaneJob {
  readonly id: string;
  readonly seq: number;
  readonly priority: number;
  readonly task: string;
  readonly version: number;
  /** Changes with every change of the job. */
  readonly rowVersion: string;
  readonly createdMs: number;
  readonly expiresMs: number | null;
  readonly tries: number;
  /** The job has failed, and one more failed attempt is its last. Default false. */
  readonly lastTry?: boolean;
  readonly crashes: number;
  /** Null: they can't be read (the SQL function `legible`). */
  readonly attributes: Attributes | null;
  /** Undefined: the job belongs to no flow. */
  readonly flow?: string;
}

/** Maximum of batches of ended attempts in one snapshot. */
export const settledMax = 500;

/** A tick's snapshot: the state of the database at one moment. */
export interface TickRead {
  readonly state: TickState;
  /**
   * Transactions that may commit jobs whose `seq` was drawn before this. Null: not read, without
   * {@link TickInput.ranges}.
   */
  readonly enqueuers: readonly string[] | null;
  /** Changes with any queue's settings. Null: not read. */
  readonly config: string | null;
  /**
   * Grows with every start of a flow, and whenever jobs of flows end or are added: before that commits. 0: no
   * flow was ever started. Null: not read.
   */
  readonly tallies: number | null;
  readonly due: TickDue | null;
  readonly lanes: readonly LaneRead[];
  /** Open questions why a job waits. */
  readonly questions: readonly OpenExplain[];
}

/**
 * Reads the snapshot of a tick, in one statement: the SQL function `tick`, and the functions that it calls.
 */
export async function readTick(target: Target, input: TickInput): Promise<TickRead> {
  const [row] = await target.query<{
    readonly state: TickState | null;
    readonly marks: Pick<TickRead, 'enqueuers' | 'tallies' | 'config'>;
    readonly due: TickDue | null;
    readonly questions: readonly OpenExplain[] | null;
    readonly rows: string;
  }>(`select state, marks, due, questions, rows from ${target.schema}.tick($1)`, [
    JSON.stringify(toRead(input)),
  ]);
  if (row === undefined || row.state === null) {
    throw new Error("a tick's snapshot came back without its state");
  }
  const { state, marks, due, questions } = row;
  const lanes = toLanes(JSON.parse(row.rows) as readonly ListedLane[]);
  return { state, ...marks, due, questions: questions ?? [], lanes };
}

/**
 * A part of a lane as the SQL function `look` lists it. Without jobs: none waits there without a work item.
 */
type ListedLane = readonly [
  queue: string,
  key: string,
  paged: boolean,
  ahead: boolean,
  wanted: number,
  retryDueMs: number | null,
  jobs?: readonly LookedJob[],
];

type LookedJob = readonly [
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
  flow?: string,
];

const noAttributes: Attributes = Object.freeze({});

/** Puts together the parts of each lane; the one that is ahead follows the other. */
function toLanes(parts: readonly ListedLane[]): readonly LaneRead[] {
  const lanes: LaneRead[] = [];
  for (const [queue, key, paged, isAhead, wanted, retryDueMs, looked = []] of parts) {
    const jobs = looked.map(toLaneJob);
    const front = isAhead ? lanes.pop() : undefined;
    lanes.push(
      front === undefined ? { queue, key, paged, wanted, retryDueMs, jobs } : { ...front, ahead: jobs },
    );
  }
  return lanes;
}

function toLaneJob(job: LookedJob): LaneJob {
  return {
    id: job[0],
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
    ...(job[12] !== undefined && { flow: job[12] }),
  };
}

/**
 * Reads the state alone, without waiting jobs and due times: enough if nothing was enqueued since the last
 * read.
 */
export async function readTickState(
  target: Target,
  { settled, itemsFrom, items }: Pick<TickInput, 'settled' | 'itemsFrom' | 'items'>,
): Promise<TickState> {
  const state = await ask<TickState>(target, 'tick_state($1, $2, $3)', [settled, itemsFrom, items]);
  if (state === undefined) throw new Error("a tick's state did not come back");
  return state;
}

/** Converts the tick's input for its SQL function. */
function toRead(input: TickInput): Readonly<Record<string, unknown>> {
  const [from, to] = idSpan(input.created);
  return {
    settled: input.settled,
    due: input.due,
    ...(input.questionsAfter !== undefined && { questions_after: input.questionsAfter }),
    items_from: input.itemsFrom,
    items: input.items,
    ...input.after,
    ...(input.skip !== undefined && { skip: Object.fromEntries(input.skip.map((queue) => [queue, true])) }),
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

/** Returns the first and the last UUID v7 of a span; for null, an empty span. */
function idSpan(created: TickInput['created']): readonly [string, string] {
  const bound = (ms: number, fill: string): string => {
    const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0').slice(-12);
    const digits = time + fill.repeat(20);
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  };
  if (created === null) return [bound(1, '0'), bound(0, '0')];
  return [bound(created.fromMs, '0'), bound(created.toMs, 'f')];
}

/** A place in a lane. */
export interface Spot {
  readonly priority: number;
  readonly seq: number;
}

/** A part of a lane: from its beginning up to these places, one for each priority. */
export interface LanePart {
  readonly lane: LaneId;
  readonly places: readonly Spot[];
}

/**
 * Reads the first waiting job of the part at each priority, among jobs whose rows were not changed. It may
 * pass millions of dead rows.
 */
export async function firstWaiting(target: Target, { lane, places }: LanePart): Promise<readonly Spot[]> {
  return target.query<Spot>(`select priority, seq from ${target.schema}.behind($1, $2, $3, $4)`, [
    lane.queue,
    lane.key,
    places.map(({ priority }) => priority),
    places.map(({ seq }) => seq),
  ]);
}

/** Reads the positions of the first `max` work items before a position. It may pass millions of dead rows. */
export async function itemsBehind(target: Target, before: number, max: number): Promise<readonly number[]> {
  return (await ask(target, 'items_behind($1, $2)::float8[]', [before, max])) ?? [];
}

/** A work item and the facts of its job, for a scheduler that did not write the item itself. */
export interface ItemFacts extends JobFacts {
  readonly position: number;
  readonly pool: string;
  readonly bundle: string | null;
  readonly dispatchedMs: number | null;
}

/** Reads the facts of the given items that still exist. */
export async function readItemFacts(
  target: Target,
  positions: readonly number[],
): Promise<readonly ItemFacts[]> {
  const rows = await target.query<Omit<ItemFacts, 'flow'> & { readonly flow: string | null }>(
    `select position::float8 as position, pool, bundle, dispatched_ms as "dispatchedMs", id, queue, key, task, version, priority,
            seq::float8 as seq, created_ms as "createdMs", expires_ms as "expiresMs", attributes, tries, flow
     from ${target.schema}.item_facts($1::bigint[])`,
    [positions],
  );
  return rows.map(({ flow, ...facts }) => (flow === null ? facts : { ...facts, flow }));
}

/** A place in a lane, with its lane. */
export type LanePlace = LaneId & Spot;

/** Counts the jobs that wait behind each of these places, `max` each at most. In the order of the places. */
export async function countBehind(
  target: Target,
  places: readonly LanePlace[],
  max: number,
): Promise<readonly number[]> {
  const values = [
    places.map(({ queue }) => queue),
    places.map(({ key }) => key),
    places.map(({ priority }) => priority),
    places.map(({ seq }) => seq),
    max,
  ];
  return (await ask(target, 'count_behind($1, $2, $3, $4, $5)', values)) ?? [];
}
