import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadPolicy } from './policy-file.ts';
import { loadDefinitions, loadTasks } from './tasks-file.ts';

/** URL of the core package: a module outside the repository cannot import it by name. */
const core = JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../../core/src/index.ts')).href);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pgqueue-files-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function moduleOf(text: string): string {
  files += 1;
  const path = join(folder, `module-${files}.mjs`);
  writeFileSync(path, text);
  return path;
}

const own = '{ name: "own", initial: {}, plan: () => ({}) }';

describe('a file with a policy', () => {
  test('has it as "policy"', async () => {
    const loaded = await loadPolicy(moduleOf(`export const policy = ${own};`), '--policy');
    expect(loaded).toMatchObject({ kind: 'policy', policy: { name: 'own' } });
  });

  test.each([
    ['', 'exports no "policy", but nothing: export what policy({ gates, order }) returns as "policy"'],
    ['export const gates = [], order = 1;', 'exports no "policy", but "gates", "order": export what'],
    [`export default ${own};`, 'exports its policy as default: write "export const policy = …"'],
    [`export const fair = ${own};`, 'exports its policy as "fair": export it as "policy"'],
    [`export const policy = () => (${own});`, 'its "policy" is a function: call it: it must be what policy('],
    [`export const policy = Promise.resolve(${own});`, 'its "policy" is a promise: await it'],
    ['export const policy = { gates: [] };', 'an object with gates or an order: give it to policy(…)'],
    ['export const policy = "fifo";', 'its "policy" is a string: it must be what policy('],
    [
      `import { fairShare } from ${core}; export const policy = fairShare();`,
      'its "policy" is a gate or an order',
    ],
    [
      `import { policy as make } from ${core}; export const policy = make({ ordr: 1 });`,
      ': policy: there is no ordr: did you mean order?',
    ],
    ['throw new TypeError("no such thing");', "can't be imported: TypeError: no such thing"],
    ['throw 5;', "can't be imported: 5"],
  ])('%s is refused, and says how to mend it', async (text, problem) => {
    const loaded = await loadPolicy(moduleOf(text), '--shadow');
    expect(loaded).toMatchObject({ kind: 'problem', problem: expect.stringContaining(problem) as unknown });
    expect(loaded).toMatchObject({
      problem: expect.stringMatching(/^--shadow .*module-\d+\.mjs: /) as unknown,
    });
  });
});

const task = `import { defineTask, implement } from ${core};
const payload = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };
const task = defineTask({ name: 'mail', payload });`;

describe('a file with tasks', () => {
  test('has handlers, alone or in a list, and perhaps their tasks beside', async () => {
    const text = `${task} export { task }; export const handler = implement(task, () => 1); export const tasks = [handler];`;
    const loaded = await loadTasks(moduleOf(text));
    expect(loaded).toMatchObject({ kind: 'tasks', handlers: { tasks: [{ kind: 'pgqueue.handler' }] } });
  });

  test('may have middleware, exported as `around`', async () => {
    const handler = `${task} export const handler = implement(task, () => 1);`;
    expect(
      await loadTasks(moduleOf(`${handler} export const around = (job, next) => next();`)),
    ).toMatchObject({ kind: 'tasks', handlers: { around: expect.any(Function) as unknown } });
    expect(await loadTasks(moduleOf(`${handler} export const around = 1;`))).toMatchObject({
      problem: expect.stringContaining('its "around" is not a function') as unknown,
    });
  });

  test.each([
    ['', 'exports nothing: export what implement(task, handler) returns'],
    ['export const tasks = [1];', 'exports no task handlers, but "tasks": export what'],
    [`${task} export const tasks = [task];`, 'its "tasks" holds tasks, not handlers: export what'],
    [`${task} export { task };`, 'its "task" holds tasks, not handlers'],
    [
      `${task} export const tasks = [implement(task, () => 1), task];`,
      'its "tasks" has something else beside handlers',
    ],
    [`${task} export const tasks = [implement(task)];`, 'handler must be given: a function'],
    [
      `${task} export const a = implement(task, () => 1), b = implement(task, () => 2);`,
      'has two handlers of task mail',
    ],
  ])('%s is refused, and says how to mend it', async (text, problem) => {
    const loaded = await loadTasks(moduleOf(text));
    expect(loaded).toMatchObject({ kind: 'problem', problem: expect.stringContaining(problem) as unknown });
  });
});

describe('a file with tasks for the HTTP API', () => {
  test('has them by themselves, in handlers, and in lists', async () => {
    const text = `${task} const other = defineTask({ name: 'sms', payload });
export { task }; export const tasks = [implement(task, () => 1), other]; export const around = 1;`;
    expect(await loadDefinitions(moduleOf(text))).toMatchObject({
      kind: 'tasks',
      tasks: [{ name: 'mail' }, { name: 'sms' }],
    });
  });

  test.each([
    ['export const other = 1;', 'exports no tasks: export what defineTask or implement returns'],
    [`${task} export const a = task, b = defineTask({ name: 'mail', payload });`, 'has two tasks named mail'],
    ['throw new TypeError("no such thing");', "can't be imported: TypeError: no such thing"],
  ])('%s is refused, and says how to mend it', async (text, problem) => {
    expect(await loadDefinitions(moduleOf(text))).toMatchObject({
      kind: 'problem',
      problem: expect.stringContaining(problem) as unknown,
    });
  });
});
