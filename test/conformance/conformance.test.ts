import { describe, expect, inject, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { clients } from './clients.ts';
import { columnsOf, guideTable, table } from './report.ts';
import { runClient } from './run.ts';

const documented = columnsOf(guideTable.read());

test('the guide has a column for each client', () => {
  expect([...documented.keys()]).toEqual(['case', ...clients.map(({ name }) => name)]);
});

describe.each(clients)('$name', (client) => {
  test.skipIf(client.tools.some(lacks))('passes, and offers what the guide says', async () => {
    const results = await runClient({ adminUrl: inject('adminUrl'), client });
    const failures = [...results].flatMap(([name, result]) =>
      result.kind === 'failed' ? [`${name}: ${result.error}`] : [],
    );
    expect(failures).toEqual([]);
    const column = columnsOf(table(new Map([[client.name, results]]))).get(client.name) ?? [];
    const expected = documented.get(client.name)?.map((cell, row) => {
      return column[row] === 'skipped' ? 'skipped' : cell; // a program is missing here
    });
    expect(column).toEqual(expected);
  });
});
