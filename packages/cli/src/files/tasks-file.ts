import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TaskHandler } from '@pgqueue/core';
import { isTask, isTaskHandler } from '@pgqueue/core/internal';
import type { Around } from '@pgqueue/worker';
import { whyNotImported } from './unread.ts';

/** Handlers of a worker, and middleware around their calls. */
export interface Handlers {
  readonly tasks: readonly TaskHandler[];
  readonly around?: Around;
}

export type TasksFile =
  | { readonly kind: 'tasks'; readonly handlers: Handlers }
  | { readonly kind: 'problem'; readonly problem: string };

/**
 * Imports a module (.js, .mjs, .ts, .mts) and returns all exported task handlers, including those in exported
 * arrays (`tasks`), and the middleware that it exports as `around`. Problems are returned as text, so that
 * they can be reported together with other configuration problems.
 */
export async function loadTasks(file: string): Promise<TasksFile> {
  const problem = (text: string): TasksFile => ({ kind: 'problem', problem: `--tasks ${file}: ${text}` });
  const path = resolve(file);
  if (!/\.[cm]?[jt]s$/.test(path)) return problem('is no module: give a .js, .mjs, .ts or .mts file');
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return problem('there is no such file');
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    return problem(whyNotImported(error, path));
  }
  const tasks = [...new Set(Object.values(exported).flatMap(handlersIn))];
  if (tasks.length === 0) return problem(noHandlers(exported));
  const mixed = Object.keys(exported).find((name) => isMixed(exported[name]));
  if (mixed !== undefined) {
    return problem(`its "${mixed}" has something else beside handlers: ${wanted}`);
  }
  const names = tasks.map(({ task }) => task.name);
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  if (twice.length > 0) return problem(`has two handlers of task ${[...new Set(twice)].join(', ')}`);
  const { around } = exported;
  if (around === undefined) return { kind: 'tasks', handlers: { tasks } };
  if (typeof around !== 'function') return problem('its "around" is not a function: middleware is one');
  return { kind: 'tasks', handlers: { tasks, around: around as Around } };
}

const wanted = 'export what implement(task, handler) returns, or an array of that named tasks';

function noHandlers(exported: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(exported);
  if (names.length === 0) return `exports nothing: ${wanted}`;
  const bare = names.find((name) => [exported[name]].flat().some(isTask));
  if (bare !== undefined) return `its "${bare}" holds tasks, not handlers: ${wanted}`;
  return `exports no task handlers, but ${names.map((name) => `"${name}"`).join(', ')}: ${wanted}`;
}

/** Reports whether an array mixes handlers with other values; those values would silently never run. */
function isMixed(value: unknown): boolean {
  return Array.isArray(value) && value.some(isTaskHandler) && !value.every(isTaskHandler);
}

function handlersIn(value: unknown): readonly TaskHandler[] {
  if (isTaskHandler(value)) return [value];
  return Array.isArray(value) ? value.filter(isTaskHandler) : [];
}
