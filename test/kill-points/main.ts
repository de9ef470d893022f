// npm run test:kill-points -- --every 1 --from 0 --lanes 6 --alone 23
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startServer } from '@pgqueue/postgres/testing';
import { killPoints } from './all.ts';
import type { Ran, Try } from './lane.ts';

const { values } = parseArgs({
  options: {
    every: { type: 'string', default: '1' },
    from: { type: 'string', default: '0' },
    lanes: { type: 'string', default: '6' },
    alone: { type: 'string', default: '23' },
  },
});
let tried = 0;
const observe = ({ scenario, point }: Try, { problems }: Ran): void => {
  tried += 1;
  if (tried % 50 === 0) console.log(`${tried} points`);
  for (const problem of problems) console.log(scenario.name, point, problem);
};
const server = await startServer();
try {
  const admin = openDatabase({ connectionString: server.adminUrl });
  const urls: string[] = [];
  for (let lane = 1; lane <= Number(values.lanes); lane += 1) {
    await admin.query(`create database lane_${lane}`, []);
    const url = new URL(server.adminUrl);
    url.pathname = `/lane_${lane}`;
    await migrate({ connectionString: url.href });
    urls.push(url.href);
  }
  await admin.close();
  const [every, from] = [Number(values.every), Number(values.from)];
  const within = await killPoints({ urls, every, from, alone: false, observe });
  const alone = await killPoints({ urls, every: Number(values.alone), from, alone: true, observe });
  const all = [...within.problems, ...alone.problems];
  for (const problem of all) console.log(problem);
  console.log(
    `kill points on PostgreSQL ${server.major}: ${JSON.stringify(within.points)}, in processes of their own ${JSON.stringify(alone.points)}, ${all.length} violations`,
  );
  process.exitCode = all.length === 0 ? 0 : 1;
} finally {
  await server.stop();
}
