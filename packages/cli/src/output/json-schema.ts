import type { Task } from '@pgqueue/core';
import { schemasOf } from '@pgqueue/core/internal';

/** JSON Schema: an object, or true for any value. */
export type JsonSchema = object | true;

/** Schemas of a task as it is stored: payloads before transformations of their schema, as producers write them. */
export interface TaskJsonSchema {
  readonly version: number;
  readonly payload: JsonSchema;
  /** Left out if the task has no schema for results. */
  readonly result?: JsonSchema;
}

/** Converts the schemas of tasks to JSON Schema, draft 2020-12. `problem` hears of each that can't be converted. */
export function jsonSchemas(
  tasks: readonly Task[],
  problem: (text: string) => void,
): Readonly<Record<string, TaskJsonSchema>> {
  return Object.fromEntries(
    tasks.map((task) => {
      const convert = (part: 'payload' | 'result'): JsonSchema => {
        try {
          return converted(schemasOf(task)?.[part]);
        } catch (error) {
          const why = error instanceof Error ? error.message : String(error);
          problem(`task ${task.name}: its ${part} stands as true, for any value: ${why}`);
          return true;
        }
      };
      const result = task.checkResult === undefined ? {} : { result: convert('result') };
      return [task.name, { version: task.version, payload: convert('payload'), ...result }];
    }),
  );
}

/** The part of Standard JSON Schema that is used here. */
interface Convertible {
  readonly '~standard': {
    readonly vendor: string;
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => object };
  };
}

function converted(schema: object | undefined): object {
  if (schema === undefined) throw new Error('the task was made by another version of @pgqueue/core');
  const { vendor, jsonSchema } = (schema as Convertible)['~standard'];
  if (jsonSchema === undefined)
    throw new Error(
      `a schema of ${vendor} that has no Standard JSON Schema, as newer ones of zod and arktype have`,
    );
  return jsonSchema.input({ target: 'draft-2020-12' });
}
