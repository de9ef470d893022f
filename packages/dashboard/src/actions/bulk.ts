import { randomUUID } from 'node:crypto';
import { loggedError } from '@pgqueue/core/internal';
import type { Before } from '@pgqueue/postgres/internal/dashboard';
import { noteAction, noteResult } from '@pgqueue/postgres/internal/dashboard';
import type { BulkRequest, BulkRun } from '../contract.ts';
import type { Desk } from '../desk.ts';
import type { Settings, User } from '../options.ts';
import { Problem, problemOf } from '../problem.ts';
import { actOnJobs, canUndo, putBack } from './act-on-jobs.ts';
import type { Bulk } from './bulk-chunks.ts';
import { chunksOf, countOf } from './bulk-chunks.ts';
import type { UndoStore } from './undo.ts';

/** Bulk actions of this process. */
export interface BulkRuns {
  /** Starts a bulk action; resolves when it is under way. @throws {Problem} `busy` */
  readonly begin: (desk: Desk, user: User, bulk: Bulk) => Promise<BulkRun>;
  readonly list: () => readonly BulkRun[];
  /** @throws {Problem} `not_found` */
  readonly get: (id: string) => BulkRun;
  /** Stops a bulk action after its current chunk. @throws {Problem} `not_found` */
  readonly stop: (id: string) => BulkRun;
  /** Stops all bulk actions and waits for them. */
  readonly close: () => Promise<void>;
}

const keptMax = 50;
const atOnceMax = 3;
const tellEveryMs = 500;
/** Jobs up to which a bulk action can be undone, since undo restores them individually. */
const undoMax = 20_000;

interface TrackedRun {
  run: BulkRun;
  stopping: boolean;
  ended: Promise<void>;
}

export function createBulkRuns({
  settings,
  undo,
  tell,
}: {
  readonly settings: Settings;
  readonly undo: UndoStore;
  readonly tell: (run: BulkRun) => void;
}): BulkRuns {
  const kept = new Map<string, TrackedRun>();
  const find = (id: string): TrackedRun => {
    const found = kept.get(id);
    if (found === undefined) throw new Problem('not_found', 'there is no such bulk action in this process');
    return found;
  };
  return {
    begin: async (desk, user, bulk) => {
      const running = [...kept.values()].filter(({ run }) => run.state === 'running');
      if (running.length >= atOnceMax)
        throw new Problem('busy', 'other bulk actions are under way: wait for one, or stop it');
      const own: TrackedRun = { run: begun(user, bulk), stopping: false, ended: Promise.resolve() };
      keep(kept, own);
      try {
        const total = await countOf(settings, desk, bulk);
        own.run = { ...own.run, total };
        const { over, request } = bulk;
        const n = await noteAction(desk.database, {
          actor: { name: user.name, via: 'dashboard' },
          action: `bulk.${request.action.kind}`,
          target: null,
          details: { over, filter: request.filter, action: request.action },
        });
        own.ended = work({ own, settings, desk, bulk, undo, tell, n });
      } catch (error) {
        kept.delete(own.run.id);
        throw error;
      }
      tell(own.run);
      return own.run;
    },
    list: () => [...kept.values()].map(({ run }) => run).toReversed(),
    get: (id) => find(id).run,
    stop: (id) => {
      const own = find(id);
      own.stopping = true;
      return own.run;
    },
    close: async () => {
      for (const own of kept.values()) own.stopping = true;
      await Promise.all([...kept.values()].map(({ ended }) => ended));
    },
  };
}

function begun(user: User, { request }: Bulk): BulkRun {
  return {
    id: randomUUID(),
    actor: user.name,
    request: toldOf(request),
    state: 'running',
    begun: new Date().toISOString(),
    ended: null,
    seen: 0,
    done: 0,
    total: { count: 0, kind: 'exact' },
    error: null,
    undo: null,
  };
}

/** Removes the payload value of the filter, since viewers see the run as well. */
function toldOf(request: BulkRequest): BulkRequest {
  if (request.over === 'dead' || request.filter.value === undefined) return request;
  return { ...request, filter: { ...request.filter, value: '…' } };
}

/** Keeps a run; makes room by removing the oldest ones that have ended. */
function keep(kept: Map<string, TrackedRun>, own: TrackedRun): void {
  for (const [id, { run }] of kept) {
    if (kept.size < keptMax) break;
    if (run.state !== 'running') kept.delete(id);
  }
  kept.set(own.run.id, own);
}

interface Work {
  readonly own: TrackedRun;
  readonly settings: Settings;
  readonly desk: Desk;
  readonly bulk: Bulk;
  readonly undo: UndoStore;
  readonly tell: (run: BulkRun) => void;
  /** Key of its row in the audit table. */
  readonly n: string;
}

async function work({ own, settings, desk, bulk, undo, tell, n }: Work): Promise<void> {
  const before: Before[] = [];
  let toldMs = 0;
  const end = (state: BulkRun['state'], error: string | null): void => {
    const back =
      bulk.over === 'jobs' && before.length > 0 && before.length <= undoMax
        ? undo.keep({
            action: `bulk.${bulk.request.action.kind}`,
            target: null,
            details: { filter: bulk.request.filter, jobs: before.length },
            revert: () => putBack(desk, before, bulk.request.action),
          })
        : null;
    own.run = { ...own.run, state, ended: new Date().toISOString(), error, undo: back };
  };
  try {
    for await (const ids of chunksOf(settings, desk, bulk)) {
      if (own.stopping) break;
      if (ids.length === 0) continue;
      const acted = await actOn(desk, bulk, ids);
      if (before.length <= undoMax) before.push(...acted.before);
      own.run = { ...own.run, seen: own.run.seen + ids.length, done: own.run.done + acted.done };
      if (performance.now() - toldMs >= tellEveryMs) {
        toldMs = performance.now();
        tell(own.run);
      }
    }
    end(own.stopping ? 'stopped' : 'done', null);
  } catch (error) {
    settings.logger?.error({ error: loggedError(error), bulk: own.run.id }, 'a bulk action failed');
    end('failed', problemOf(error).message);
  }
  const { seen, done, state } = own.run;
  await noteResult(desk.database, n, { state, seen, done }).catch(() => false);
  tell(own.run);
}

async function actOn(
  desk: Desk,
  bulk: Bulk,
  ids: readonly string[],
): Promise<{ readonly done: number; readonly before: readonly Before[] }> {
  if (bulk.over === 'jobs') {
    const { done, before } = await actOnJobs(desk, ids, bulk.request.action);
    return { done, before: canUndo(bulk.request.action) ? before : [] };
  }
  const { dead } = desk.operator;
  const { done } =
    bulk.request.action.kind === 'redrive' ? await dead.redrive({ ids }) : await dead.purge({ ids });
  return { done, before: [] };
}
