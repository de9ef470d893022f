import { throwProblems } from '@pgqueue/core/internal';
import type { Command } from 'commander';
import { outputOf } from '../context.ts';
import { loadDefinitions } from '../files/tasks-file.ts';
import { age } from '../output/format.ts';
import { jsonSchemas } from '../output/json-schema.ts';
import type { GlobalOptions } from '../settings.ts';
import { examples } from './help.ts';

interface TasksOptions {
  readonly tasks: string;
  readonly jsonSchema?: true;
}

export function addTasks(program: Command): void {
  const command = program
    .command('tasks')
    .summary('list the tasks of a module, or write their JSON Schema')
    .description(
      'Lists the tasks that a module exports, alone or with their handlers. With --json-schema, writes the JSON Schema of their payloads and results, for producers and workers in other languages. Needs no database.',
    )
    .requiredOption('--tasks <file>', 'a module (.js, .mjs, .ts) that exports tasks or task handlers')
    .option('--json-schema', 'write one JSON document: for each task its version, payload and result')
    .action(async ({ tasks: file, jsonSchema }: TasksOptions, self: Command) => {
      const output = outputOf(self.optsWithGlobals<GlobalOptions>(), (text) => text);
      const loaded = await loadDefinitions(file);
      if (loaded.kind === 'problem') return throwProblems('configuration', 'pgqueue tasks', [loaded.problem]);
      const { tasks } = loaded;
      if (jsonSchema === true) {
        const schemas = jsonSchemas(tasks, output.note);
        output.answer(schemas, () => JSON.stringify(schemas, null, 2));
        return;
      }
      const facts = tasks.map(({ name, version, minVersion, timeoutMs }) => {
        return { name, version, minVersion, timeoutMs };
      });
      output.answer(facts, () =>
        output.table(
          ['task', 'versions', 'timeout'],
          facts.map(({ name, version, minVersion, timeoutMs }) => [
            name,
            minVersion === version ? String(version) : `${minVersion}-${version}`,
            timeoutMs === null ? '' : age(timeoutMs),
          ]),
        ),
      );
    });
  examples(command, [
    ['tasks --tasks ./tasks.ts', 'their names, versions and timeouts'],
    ['tasks --tasks ./tasks.ts --json-schema > tasks.json', 'for a generator of types'],
  ]);
}
