// The guide for workers in other languages names the SQL functions as they are.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { rights } from '../security/roles.ts';

const { sql } = useDatabase();
const page = readFileSync(new URL('../../../docs/guides/protocol.md', import.meta.url), 'utf8')
  // excerpts of programs, which call the functions with values
  .replaceAll(/^```(?:python|bash|sh)[^]*?^```$/gm, '');

interface Signature {
  readonly name: string;
  readonly parameters: readonly string[];
  readonly types: readonly string[];
  readonly columns: readonly string[];
}

async function signatures(): Promise<readonly Signature[]> {
  const rows = await sql(
    `select p.proname::text as name,
       coalesce(p.proargnames[:p.pronargs], '{}') as parameters, coalesce(p.proargnames[p.pronargs + 1:], '{}') as columns,
       array(select format_type(t.type, null) from unnest(p.proargtypes) with ordinality as t (type, n) order by t.n) as types
     from pg_proc p where p.pronamespace = 'pgqueue'::regnamespace`,
  );
  return rows as readonly Signature[];
}

/** Types as the page writes them: a type of two words by one. */
const written = (type: string): string =>
  ({
    'timestamp with time zone': 'timestamptz',
    'double precision': 'float8',
    'double precision[]': 'float8[]',
    'real[]': 'float4[]',
  })[type] ?? type;

/** Names, and types where they are given, of a list such as `node text, slots integer = 1`. */
function listed(text: string): readonly { readonly name: string; readonly type: string | undefined }[] {
  return text
    .split(',')
    .map((part) => part.replace(/=.*/s, '').trim().split(/\s+/))
    .map(([name = '', type]) => ({ name, type }));
}

test('names its functions with their parameters and types, and the columns that they return', async () => {
  const known = await signatures();
  const names = new Set(known.map(({ name }) => name));
  const calls = [...page.matchAll(/\b([a-z_]+)\(([^()]*)\)(?:\s*\n?\s*→ ([^`]*?)\n(?:```|\n))?/g)].filter(
    ([, name = '', given = '']) => names.has(name) && !given.includes('…'),
  );
  expect(calls.length).toBeGreaterThan(25);
  for (const [call, name = '', given = '', returned] of calls) {
    const parameters = listed(given);
    const fits = known.find(
      (each) =>
        each.name === name &&
        parameters.every(
          (parameter, n) =>
            each.parameters[n] === `p_${parameter.name}` &&
            (parameter.type === undefined || written(each.types[n] ?? '') === parameter.type),
        ),
    );
    expect(fits, `there is no ${call}`).toBeDefined();
    if (returned === undefined || fits?.columns.length === 0) continue;
    const columns = listed(returned).map((column) => column.name);
    expect({ name, columns }).toEqual({ name, columns: fits?.columns });
  }
  const allowed = new Set(rights.worker.functions.split(' '));
  const refused = calls.map(([, name = '']) => name).filter((name) => !allowed.has(name));
  expect(refused).toEqual([]);
});
