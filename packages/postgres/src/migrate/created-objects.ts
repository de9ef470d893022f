import { migrationFiles } from './migrator.ts';

/** An object of the schema that a migration creates. */
export interface CreatedObject {
  readonly kind: 'table' | 'function' | 'view' | 'trigger';
  readonly name: string;
}

const statement =
  /^(create|drop) (?:or replace )?(?:unlogged )?(table|function|view|trigger) (?:if exists )?(\w+)/gm;

/**
 * Lists the objects that the migrations up to a version create, and that none of them drops again.
 * @throws {PgQueueError} `configuration`: a bundler has moved this code away from the migrations
 */
export function createdObjects(version: number): readonly CreatedObject[] {
  const objects = new Map<string, CreatedObject>();
  for (const file of migrationFiles()) {
    if (file.version > version) break;
    for (const [, verb, kind, name = ''] of file.sql.matchAll(statement)) {
      if (verb === 'drop') objects.delete(`${kind} ${name}`);
      else objects.set(`${kind} ${name}`, { kind: kind as CreatedObject['kind'], name });
    }
  }
  return [...objects.values()];
}
