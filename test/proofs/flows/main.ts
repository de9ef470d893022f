// npm run proof:flows -- --minutes 2 --seed 1
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { createBase } from '../../support/servers/machine.ts';
import { createPostgres } from '../../support/servers/server.ts';
import { lacks } from '../../support/tools.ts';
import { lineOf, tell } from './report.ts';
import { flowsRun } from './run.ts';
import type { Restartable } from './stage.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '50' },
    open: { type: 'string', default: '25' },
  },
});

interface Opened {
  readonly url: string;
  readonly server?: Restartable;
  readonly close: () => Promise<void>;
}

/** A server that can be crashed, where the machine has one; any other server runs through. */
async function openServer(): Promise<Opened> {
  if (lacks('postgresql-15')) {
    const server = await startServer();
    return { url: server.adminUrl, close: () => server.stop() };
  }
  const base = createBase();
  const postgres = await createPostgres({ base, name: 'flows' });
  await postgres.start();
  return {
    url: postgres.url,
    server: { crash: () => postgres.stop('immediate'), start: () => postgres.start() },
    close: async () => {
      await postgres.stop('immediate');
      await base.remove();
    },
  };
}

const seed = Number(values.seed);
const { url, server, close } = await openServer();
try {
  await migrate({ connectionString: url });
  const report = await flowsRun({
    url,
    seed,
    ms: Number(values.minutes) * 60_000,
    stepsMax: Number(values.steps),
    openMax: Number(values.open),
    ...(server === undefined ? {} : { server }),
  });
  tell(report, seed);
  console.log(lineOf(report));
  process.exitCode = report.violations.length === 0 ? 0 : 1;
} finally {
  await close();
}
