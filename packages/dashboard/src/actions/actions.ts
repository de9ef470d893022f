import { isDeepStrictEqual } from 'node:util';
import { audited, defaultSettings, readPaused, readSettings } from '@pgqueue/postgres/internal/dashboard';
import type { QueueSettings } from '@pgqueue/postgres';
import type {
  JobsAction,
  JobsActionResult,
  NodeAction,
  NodeActionResult,
  QueueAction,
  QueueActionResult,
  ScheduleAction,
  ScheduleActionResult,
  UndoRequest,
  UndoResult,
} from '../contract.ts';
import type { Desk } from '../desk.ts';
import { checked } from '../http/body.ts';
import type { User } from '../options.ts';
import { actOnJobs, putBack } from './act-on-jobs.ts';
import { bodies } from './bodies.ts';
import type { UndoStore } from './undo.ts';

/** Context of an action. */
export interface Actions {
  readonly desk: Desk;
  readonly user: User;
  readonly undo: UndoStore;
  /** Tells all connected clients that something has changed. */
  readonly changed: (action: string, target: string | null) => void;
}

interface Done<Result> {
  readonly value: Result;
  /** Result for the audit table. */
  readonly result: unknown;
}

/** Runs an action: records it and its result in the audit table, and tells all connected clients. */
export async function act<Result>(
  { desk, user, changed }: Actions,
  what: { readonly action: string; readonly target: string | null; readonly details: unknown },
  work: () => Promise<Done<Result>>,
): Promise<Result> {
  const actor = { name: user.name, via: 'dashboard' } as const;
  try {
    return await audited(desk.database, { actor, ...what }, work);
  } finally {
    changed(what.action, what.target);
  }
}

const idsNoted = 100;

export function jobsAction(actions: Actions, body: unknown): Promise<JobsActionResult> {
  const { ids: given, action } = checked(body, bodies.jobs) as JobsAction;
  const ids = [...new Set(given.map((id) => id.toLowerCase()))];
  const { desk, undo } = actions;
  const noted = (of: readonly string[]) => ({ jobs: of.length, ids: of.slice(0, idsNoted) });
  const what = { action: `jobs.${action.kind}`, target: ids.length === 1 ? (ids[0] ?? null) : null };
  return act(actions, { ...what, details: { ...action, ...noted(ids) } }, async () => {
    const { verdicts, done, before } = await actOnJobs(desk, ids, action);
    const back = {
      ...what,
      details: noted(before.map(({ id }) => id)),
      revert: () => putBack(desk, before, action),
    };
    return {
      result: { done, of: ids.length },
      value: { verdicts, done, undo: before.length === 0 ? null : undo.keep(back) },
    };
  });
}

export async function queueAction(actions: Actions, body: unknown): Promise<QueueActionResult> {
  const { queue, settings } = checked(body, bodies.queue) as QueueAction;
  const { desk, undo } = actions;
  const { retentionMs, ...others } = settings;
  const change: QueueSettings = {
    ...others,
    ...(retentionMs === undefined ? {} : { retention: retentionMs }),
  };
  const what = { action: 'queue.set', target: queue };
  return act(actions, { ...what, details: settings }, async () => {
    const names = Object.keys(change);
    const before = await settingsOf(desk, queue);
    const { isNew } = await desk.operator.queues.set(queue, change);
    const after = await settingsOf(desk, queue);
    const changed = names.filter((name) => !isDeepStrictEqual(before[name], after[name]));
    const revert = async (): Promise<UndoResult> => {
      const now = await settingsOf(desk, queue);
      const same = changed.filter((name) => isDeepStrictEqual(now[name], after[name]));
      if (same.length > 0) await desk.operator.queues.set(queue, partOf(before, same));
      return { undone: same.length, missed: changed.length - same.length };
    };
    const back = { ...what, details: { to: partOf(before, changed) }, revert };
    return {
      result: { isNew, before: partOf(before, names) },
      value: { isNew, undo: changed.length === 0 ? null : undo.keep(back) },
    };
  });
}

/** Reads the settings of a queue, by the names that an operator takes. */
async function settingsOf({ database }: Desk, queue: string): Promise<Readonly<Record<string, unknown>>> {
  const { retentionMs, ...others } = (await readSettings(database)).get(queue)?.settings ?? defaultSettings;
  return { ...others, retention: retentionMs };
}

function partOf(settings: Readonly<Record<string, unknown>>, names: readonly string[]): QueueSettings {
  return Object.fromEntries(names.map((name) => [name, settings[name]]));
}

export function nodeAction(actions: Actions, body: unknown): Promise<NodeActionResult> {
  const { node } = checked(body, bodies.node) as NodeAction;
  return act(actions, { action: 'node.reset', target: node, details: {} }, async () => {
    const { ready, dead, cancelled } = await actions.desk.operator.nodes.reset(node);
    const value = { ready, dead, cancelled };
    return { value, result: value };
  });
}

export function scheduleAction(actions: Actions, body: unknown): Promise<ScheduleActionResult> {
  const { name, action } = checked(body, bodies.schedule) as ScheduleAction;
  const { desk, undo } = actions;
  const { schedules } = desk.operator;
  const what = { action: `schedule.${action}`, target: name, details: {} };
  return act<ScheduleActionResult>(actions, what, async () => {
    if (action === 'run_now') {
      const job = await schedules.runNow(name);
      return { result: { job }, value: { job, undo: null } };
    }
    const pauses = action === 'pause';
    const before = await readPaused(desk.database, name);
    await schedules[action](name);
    if (before === pauses) return { result: { changed: false }, value: { job: null, undo: null } };
    const revert = async (): Promise<UndoResult> => {
      if ((await readPaused(desk.database, name)) !== pauses) return { undone: 0, missed: 1 };
      await schedules[pauses ? 'resume' : 'pause'](name);
      return { undone: 1, missed: 0 };
    };
    return { result: { changed: true }, value: { job: null, undo: undo.keep({ ...what, revert }) } };
  });
}

export function undoAction(actions: Actions, body: unknown): Promise<UndoResult> {
  const { id } = checked(body, bodies.undo) as UndoRequest;
  const { action, target, details, revert } = actions.undo.take(id);
  return act(actions, { action: 'undo', target, details: { action, ...details } }, async () => {
    const value = await revert();
    return { value, result: value };
  });
}
