import type { Codec, Task, TaskHandler } from '@pgqueue/core';
import { isTask, isTaskHandler, repeated } from '@pgqueue/core/internal';
import type { Around } from '@pgqueue/worker';
import { isCodec } from './codec-file.ts';
import type { ImportedModule } from './module.ts';
import { importModule } from './module.ts';

/** Handlers of a worker, and middleware around their calls. */
export interface Handlers {
  readonly tasks: readonly TaskHandler[];
  readonly around?: Around;
  readonly codec?: Codec;
}

interface Problem {
  readonly kind: 'problem';
  readonly problem: string;
}

export type TasksFile = { readonly kind: 'tasks'; readonly handlers: Handlers } | Problem;

/** Tasks of a module, without their handlers. */
export type DefinitionsFile = { readonly kind: 'tasks'; readonly tasks: readonly Task[] } | Problem;

/**
 * Imports a module (.js, .mjs, .ts, .mts) and returns all exported task handlers, including those in exported
 * arrays (`tasks`), the middleware that it exports as `around`, and its `codec`. Problems are returned as text, so that
 * they can be reported together with other configuration problems.
 */
export async function loadTasks(file: string): Promise<TasksFile> {
  const problem = (text: string): Problem => problemIn(file, text);
  const imported = await importTasks(file);
  if (imported.kind === 'problem') return imported;
  const { exported } = imported;
  const tasks = [...new Set(Object.values(exported).flatMap(handlersIn))];
  if (tasks.length === 0) return problem(noHandlers(exported));
  const mixed = Object.keys(exported).find((name) => isMixed(exported[name]));
  if (mixed !== undefined) {
    return problem(`its "${mixed}" has something else beside handlers: ${wanted}`);
  }
  const twice = repeated(tasks.map(({ task }) => task.name));
  if (twice.length > 0) return problem(`has two handlers of task ${twice.join(', ')}`);
  const { around, codec } = exported;
  if (around !== undefined && typeof around !== 'function')
    return problem('its "around" is not a function: middleware is one');
  if (codec !== undefined && !isCodec(codec))
    return problem('its "codec" is no codec: encrypted({ keys, plain }) makes one');
  return {
    kind: 'tasks',
    handlers: {
      tasks,
      ...(around === undefined ? {} : { around: around as Around }),
      ...(codec === undefined ? {} : { codec }),
    },
  };
}

/**
 * Imports a module and returns the tasks that it exports, by themselves or in handlers, also in arrays. Ignores all
 * else. Problems are returned as text.
 */
export async function loadDefinitions(file: string): Promise<DefinitionsFile> {
  const imported = await importTasks(file);
  if (imported.kind === 'problem') return imported;
  const found = Object.values(imported.exported).flat().flatMap(definitionsIn);
  const tasks = [...new Set(found)];
  if (tasks.length === 0)
    return problemIn(file, 'exports no tasks: export what defineTask or implement returns');
  const twice = repeated(tasks.map(({ name }) => name));
  return twice.length > 0
    ? problemIn(file, `has two tasks named ${twice.join(', ')}`)
    : { kind: 'tasks', tasks };
}

function definitionsIn(value: unknown): readonly Task[] {
  if (isTask(value)) return [value];
  return isTaskHandler(value) ? [value.task] : [];
}

async function importTasks(file: string): Promise<Exclude<ImportedModule, Problem> | Problem> {
  const imported = await importModule(file);
  return imported.kind === 'problem' ? problemIn(file, imported.problem) : imported;
}

function problemIn(file: string, text: string): Problem {
  return { kind: 'problem', problem: `--tasks ${file}: ${text}` };
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
