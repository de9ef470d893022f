import { audited, defaultSettings, readSettings } from '@pgqueue/postgres/internal/dashboard';
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
  const details = { ...action, jobs: ids.length, ids: ids.slice(0, idsNoted) };
  const target = ids.length === 1 ? (ids[0] ?? null) : null;
  return act(actions, { action: `jobs.${action.kind}`, target, details }, async () => {
    const { verdicts, done, before } = await actOnJobs(desk, ids, action);
    return {
      result: { done, of: ids.length },
      value: {
        verdicts,
        done,
        undo: before.length === 0 ? null : undo.keep(() => putBack(desk, before, action)),
      },
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
  return act(actions, { action: 'queue.set', target: queue, details: settings }, async () => {
    const before = (await readSettings(desk.database)).get(queue)?.settings ?? defaultSettings;
    const { isNew } = await desk.operator.queues.set(queue, change);
    const { retentionMs: retention, ...rest } = before;
    const former: Readonly<Record<string, unknown>> = { ...rest, retention };
    const back = Object.fromEntries(Object.keys(change).map((name) => [name, former[name]])) as QueueSettings;
    const revert = async (): Promise<UndoResult> => {
      await desk.operator.queues.set(queue, back);
      return { undone: 1, missed: 0 };
    };
    return { result: { isNew, before: back }, value: { isNew, undo: undo.keep(revert) } };
  });
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
  return act<ScheduleActionResult>(
    actions,
    { action: `schedule.${action}`, target: name, details: {} },
    async () => {
      if (action === 'run_now') {
        const job = await schedules.runNow(name);
        return { result: { job }, value: { job, undo: null } };
      }
      await schedules[action](name);
      const revert = async (): Promise<UndoResult> => {
        await schedules[action === 'pause' ? 'resume' : 'pause'](name);
        return { undone: 1, missed: 0 };
      };
      return { result: {}, value: { job: null, undo: undo.keep(revert) } };
    },
  );
}

export function undoAction(actions: Actions, body: unknown): Promise<UndoResult> {
  const { id } = checked(body, bodies.undo) as UndoRequest;
  const revert = actions.undo.take(id);
  return act(actions, { action: 'undo', target: id, details: {} }, async () => {
    const value = await revert();
    return { value, result: value };
  });
}
