// The dashboard with something to see, for whoever works on it:
//   node --conditions=@pgqueue/source packages/dashboard/dev.ts [port]
// An embedded Postgres whose data goes when it ends, a scheduler, three nodes, a few tenants that enqueue for ever, and the dashboard.
// Serves the front end as it was built last; `vite dev` in packages/dashboard/web can pass /api on to it.
import { setTimeout as delay } from 'node:timers/promises';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { startPlay } from './dev/play.ts';
import { createDashboard, serveDashboard } from './src/index.ts';

const port = Number(process.argv[2] ?? 3456);
const server = await startServer({ major: 18 });
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());
try {
  const settings = { connectionString: server.adminUrl, schema: 'pgqueue' };
  await migrate({ ...settings, roles: true });
  const play = await startPlay(settings);
  const dashboard = await serveDashboard(
    createDashboard({
      ...settings,
      traceUrl: 'https://traces.example/trace/{traceId}',
      logger: console,
    }),
    { port },
  );
  process.stdout.write(`dashboard: ${dashboard.url}\ndatabase:  ${server.adminUrl}\n`);
  await delay(2_147_483_647, undefined, { signal: stopping.signal }).catch(() => {});
  await dashboard.close();
  await play.stop();
} finally {
  await server.stop();
}
