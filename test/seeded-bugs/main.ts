// npm run test:seeded-bugs -- --rounds 3: each scenario without its bug, and with it; says how each was found.
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startServer } from '@pgqueue/postgres/testing';
import { bugs, isCaught } from './bugs.ts';
import { judge } from './judge.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '1' } } });
const server = await startServer();
const admin = openDatabase({ connectionString: server.adminUrl });
let databases = 0;

/** On a database of its own. */
async function judged(...[scenario, bug]: [string, (typeof bugs)[number]?]): Promise<readonly string[]> {
  const name = `seeded_${(databases += 1)}`;
  await admin.query(`create database ${name}`, []);
  const url = new URL(server.adminUrl);
  url.pathname = `/${name}`;
  await migrate({ connectionString: url.href });
  return judge(url.href, scenario, bug);
}

try {
  let [caught, wrong] = [0, 0];
  const rounds = Number(values.rounds);
  for (let round = 1; round <= rounds; round += 1) {
    for (const bug of bugs) {
      const good = await judged(bug.scenario);
      const found = await judged(bug.scenario, bug);
      if (good.length > 0) wrong += 1;
      if (isCaught(bug, found)) caught += 1;
      const without = good.length === 0 ? 'good' : `NOT GOOD: ${good.join('; ')}`;
      console.log(
        `${bug.name}: without it ${without}; with it ${isCaught(bug, found) ? '' : 'NOT CAUGHT '}${found.join('; ')}`.slice(
          0,
          400,
        ),
      );
    }
  }
  const all = bugs.length * rounds;
  console.log(
    `seeded bugs on PostgreSQL ${server.major}: ${caught} of ${all} caught, ${wrong} of ${all} scenarios not good without`,
  );
  process.exitCode = caught === all && wrong === 0 ? 0 : 1;
} finally {
  await admin.close();
  await server.stop();
}
