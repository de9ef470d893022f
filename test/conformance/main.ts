// npm run test:conformance -- [--command './my-worker'] [--client NAME] [--case NAME]
// --write: of all clients of the repository, into the guide
import { parseArgs } from 'node:util';
import { startServer } from '@pgqueue/postgres/testing';
import { lacks } from '../support/tools.ts';
import type { Client } from './clients.ts';
import { clients } from './clients.ts';
import { guideTable, table } from './report.ts';
import type { Result } from './run.ts';
import { cases, runClient } from './run.ts';

const { values } = parseArgs({
  options: {
    command: { type: 'string', multiple: true, default: [] },
    client: { type: 'string', multiple: true, default: [] },
    case: { type: 'string', multiple: true, default: [] },
    write: { type: 'boolean', default: false },
  },
});

function refuse(kind: string, given: readonly string[], known: readonly string[]): void {
  const wrong = given.filter((name) => !known.includes(name));
  if (wrong.length === 0) return;
  console.error(`unknown ${kind} ${wrong.join(', ')}: give ${known.join(', ')}`);
  process.exit(2);
}
refuse(
  '--client',
  values.client,
  clients.map(({ name }) => name),
);
refuse(
  '--case',
  values.case,
  cases.map(({ name }) => name),
);

const given = values.command.map((command): Client => ({ name: command, command, tools: [] }));
const named = clients.filter(({ name }) => values.client.includes(name));
const asked = [...given, ...named];
const chosen = values.case.length === 0 ? cases : cases.filter(({ name }) => values.case.includes(name));
const all = new Map<string, ReadonlyMap<string, Result>>();

const server = await startServer();
try {
  for (const client of asked.length === 0 ? clients : asked) {
    if (client.tools.some(lacks)) continue;
    console.log(`# ${client.name}`);
    const startedAt = performance.now();
    const results = await runClient({
      adminUrl: server.adminUrl,
      client,
      chosen,
      observe: (name, result, tookMs) => {
        console.log(`${result.kind.padEnd(11)} ${name} (${Math.round(tookMs)} ms)`);
        if (result.kind === 'failed') console.log(result.error);
      },
    });
    console.log(`${client.name}: ${Math.round((performance.now() - startedAt) / 1_000)} s`);
    all.set(client.name, results);
  }
} finally {
  await server.stop();
}
console.log(`\n${table(all)}`);
if (values.write) guideTable.write(table(all));
const failed = [...all.values()].some((results) =>
  [...results.values()].some(({ kind }) => kind === 'failed'),
);
process.exitCode = failed ? 1 : 0;
