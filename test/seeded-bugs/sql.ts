import type { Database } from '@pgqueue/postgres';

/** One change of one SQL function, as a mistaken migration would make it. */
export interface SqlBug {
  /** With its argument types, as in `regprocedure`: `release(uuid[],uuid[])`. */
  readonly function: string;
  /** Each text is looked for in the function as the database has it, and must be there. */
  readonly edits: readonly { readonly from: string; readonly to: string }[];
}

/** Replaces the function by one with the mistake in it. @throws when a text is not found: then the bug would be none */
export async function seed(database: Database, { function: name, edits }: SqlBug): Promise<void> {
  const [row] = await database.query<{ definition: string }>(
    'select pg_get_functiondef($1::regprocedure) as definition',
    [`${database.schema}.${name}`],
  );
  let definition = row?.definition ?? '';
  for (const { from, to } of edits) {
    if (!definition.includes(from)) throw new Error(`${name} does not contain: ${from}`);
    definition = definition.replaceAll(from, to);
  }
  await database.query(definition, []);
}
