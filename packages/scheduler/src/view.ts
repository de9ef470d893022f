import type { Candidate, Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres';

/** A waiting job as it was read. */
export interface KnownJob extends Candidate {
  readonly rowVersion: string;
}

/**
 * The waiting jobs that a leader knows: the first few of every lane. Each tick reads one page of lanes; as long as they fit into it,
 * that is all there is, and always fresh. Beyond, the page moves on from tick to tick while the other lanes stay as they were read,
 * and three kinds are read out of turn: lanes whose known jobs are used up, those in which a job has just been enqueued, and those that
 * a plan asked for. What is out of date does no harm: dispatch refuses a job that was changed since.
 */
export interface View {
  /** What the next tick asks for. `lanes`: to be looked at beside those that it asks for itself. */
  readonly ask: (
    nowMs: number,
    lanes: readonly LaneId[],
  ) => Pick<TickInput, 'after' | 'lanes' | 'created' | 'depth'>;
  readonly see: (rows: readonly LaneRow[], keys: number) => void;
  readonly lanes: () => readonly Lane[];
  readonly find: (id: string) => KnownJob | undefined;
  /** A plan was written: `planned` are gone from here, and lanes with jobs that were refused are read anew. */
  readonly wrote: (planned: Iterable<string>, written: ReadonlyMap<string, number>) => void;
  /** Lanes, by name, of which so many jobs must be read at the next tick. */
  readonly want: (lanes: Iterable<readonly [string, number]>) => void;
  /** Whether all lanes fitted into the last page. */
  readonly whole: () => boolean;
  /** Whether a lane waits to be read out of turn. */
  readonly hungry: () => boolean;
  readonly reset: () => void;
}

interface Known extends LaneId {
  readonly jobs: readonly KnownJob[];
  readonly more: boolean;
  readonly retryDueMs: number | null;
  readonly lane: Lane;
}

/** Lanes that are remembered at most; those read longest ago go first, and come back with their page. */
const lanesMax = 20_000;
/** Lanes that one tick reads out of turn, at most. */
const namedMax = 1_000;
/** Jobs read in such a lane, unless a plan needs more. */
const depthMin = 4;
/** A job is visible so long after its id was made, usually; and clocks of producers differ by so much. */
const commitMs = 200;

const start: LaneId = { queue: '', key: '' };

export function createView(): View {
  const known = new Map<string, Known>();
  const byId = new Map<string, KnownJob>();
  const wanted = new Map<string, number>();
  let after = start;
  let whole = true;
  let probedMs: number | null = null;

  const forget = (name: string): void => {
    for (const { id } of known.get(name)?.jobs ?? []) byId.delete(id);
    known.delete(name);
  };
  const put = (name: string, entry: Omit<Known, 'lane'>, fresh: boolean): void => {
    const { queue, key, jobs, more, retryDueMs } = entry;
    known.set(name, { ...entry, lane: { queue, key, jobs, more, retryDueMs, fresh } });
    for (const job of jobs) byId.set(job.id, job);
  };
  const age = (): void => {
    for (const [name, entry] of known) if (entry.lane.fresh) put(name, entry, false);
  };

  return {
    ask: (nowMs, extra) => {
      const named = new Map(extra.map((lane) => [laneName(lane), lane]));
      let depth = depthMin;
      for (const [name, jobs] of wanted) {
        const lane = known.get(name);
        if (named.size >= namedMax) break;
        wanted.delete(name);
        if (lane === undefined) continue;
        named.set(name, { queue: lane.queue, key: lane.key });
        depth = Math.max(depth, jobs);
      }
      const created =
        whole || probedMs === null ? null : { fromMs: probedMs - commitMs, toMs: nowMs + commitMs };
      probedMs = nowMs;
      return { after, lanes: [...named.values()], depth, created };
    },
    see: (rows, keys) => {
      const lanes = Map.groupBy(rows, laneName);
      const paged = [...lanes.values()].filter(([row]) => row?.paged === true);
      whole = paged.length < keys;
      if (whole) {
        for (const name of known.keys()) if (!lanes.has(name)) forget(name);
      } else {
        age();
      }
      for (const [name, own] of lanes) {
        forget(name);
        const [first] = own;
        const jobs = own.flatMap(toJob);
        const more = jobs.length >= (first?.wanted ?? 1);
        const { queue, key, retryDueMs } = first ?? { ...start, retryDueMs: null };
        if (jobs.length > 0) put(name, { queue, key, jobs, more, retryDueMs }, true);
      }
      const last = paged.at(-1)?.[0];
      after = whole || last === undefined ? start : { queue: last.queue, key: last.key };
      for (const name of known.keys()) {
        if (known.size <= lanesMax) break;
        forget(name);
      }
    },
    lanes: () => [...known.values()].map(({ lane }) => lane),
    find: (id) => byId.get(id),
    wrote: (planned, written) => {
      const touched = new Map<string, boolean>();
      for (const id of planned) {
        const job = byId.get(id);
        if (job === undefined) continue;
        const name = laneName(job);
        touched.set(name, touched.get(name) === true || !written.has(id));
        byId.delete(id);
      }
      for (const [name, refused] of touched) {
        const entry = known.get(name);
        if (entry === undefined) continue;
        const jobs = entry.jobs.filter(({ id }) => byId.has(id));
        if (jobs.length === 0 && !entry.more && !refused) forget(name);
        else put(name, { ...entry, jobs }, entry.lane.fresh);
        if (refused || (jobs.length === 0 && entry.more))
          wanted.set(name, Math.max(depthMin, entry.jobs.length));
      }
    },
    want: (lanes) => {
      for (const [name, jobs] of lanes) wanted.set(name, Math.max(jobs, wanted.get(name) ?? 0));
    },
    whole: () => whole,
    hungry: () => wanted.size > 0,
    reset: () => {
      known.clear();
      byId.clear();
      wanted.clear();
      [after, whole, probedMs] = [start, true, null];
    },
  };
}

function toJob(row: LaneRow): readonly KnownJob[] {
  const {
    id,
    queue,
    key,
    seq,
    priority,
    task,
    version,
    rowVersion,
    createdMs,
    expiresMs,
    tries,
    attributes,
  } = row;
  if (id === null) return [];
  return [
    { id, queue, key, seq, priority, task, version, rowVersion, createdMs, expiresMs, tries, attributes },
  ];
}
