import type { StandardSchemaV1 } from '@standard-schema/spec';

/** Schemas of a task's definition. */
export interface TaskSchemas {
  readonly payload: StandardSchemaV1;
  readonly result: StandardSchemaV1 | undefined;
}

// the same in every copy of this package: a command line has its own
const key: unique symbol = Symbol.for('pgqueue.schemas');

/** Returns a member for a task under which {@link schemasOf} finds its schemas. */
export function schemasMember(schemas: TaskSchemas): object {
  return { [key]: schemas };
}

/** Returns the schemas of a task; undefined if it was made by an older version. */
export function schemasOf(task: object): TaskSchemas | undefined {
  return (task as { readonly [key]?: TaskSchemas })[key];
}
