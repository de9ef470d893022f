// npm run bench:dashboard [-- --jobs 1000000 --history 10000000]
// Fills a database of its own. Prints the cost of the statements of each page of the dashboard, then the cost
// of
// each page while it is open, in one tab and in five. Exits with 1 if a page costs the database more than 200
// ms
// of a processor, or an open page more than 5 statements a second or 1 % of a processor.
// --open-seconds 60     how long each open page is measured
// --filled URL          a database that an earlier run has filled, on this machine
import { parseArgs } from 'node:util';
import { createDashboard } from '@pgqueue/dashboard';
import { migrate } from '@pgqueue/postgres';
import { lead, openDatabase, countActivity } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import pg from 'pg';
import { fill } from './dashboard-fill.ts';
import { livePagesOf, measureOpen } from './dashboard-open.ts';
import type { Taken } from './dashboard-timed.ts';
import { timedPool } from './dashboard-timed.ts';

const boundMs = 200;
const openBounds = { perSecond: 5, share: 0.01 } as const;
const rounds = 7;
const leader = 'bench';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000000' },
    history: { type: 'string', default: '10000000' },
    'open-seconds': { type: 'string', default: '60' },
    filled: { type: 'string' },
  },
});
const jobs = Number(values.jobs);
const history = Number(values.history);

/** Runs the scheduler's sweep that counts activity, and prints its cost for each row of history. */
async function count(database: Database): Promise<void> {
  const { epoch } = await lead(database, leader, 3_600_000);
  const begun = performance.now();
  let behind = Infinity;
  while (behind > 0) behind = await countActivity(database, { leader, epoch }, 1_000);
  const [row] = await database.query<{ counted: number }>(
    `select coalesce(sum(done + cancelled + expired), 0)::float8 as counted from pgqueue.activity where grain = 900 and queue = ''`,
    [],
  );
  const ms = performance.now() - begun;
  const counted = row?.counted ?? 0;
  console.log(
    `${counted} ended jobs of a day counted in ${(ms / 1_000).toFixed(1)} s: ${((ms * 1_000) / counted).toFixed(2)} µs each\n`,
  );
}

function pagesOf(ids: Readonly<Record<'waiting' | 'done' | 'dead', string>>): readonly string[] {
  return [
    'session',
    'overview',
    'overview?window=day',
    'overview?window=day&queue=q3',
    'keys',
    'keys?window=minutes',
    'keys?queue=q3&key=k3',
    'queues',
    'jobs',
    'jobs?status=pending',
    'jobs?status=pending&key=k5',
    'jobs?status=done&queue=q3',
    'jobs?task=nothing',
    'jobs?error=ECONNREFUSED%20999',
    'jobs?field=customer.id&value=77',
    'jobs?status=running',
    'jobs/count',
    'jobs/count?status=pending',
    'jobs/count?status=done&task=task3',
    `jobs/${ids.waiting}`,
    `jobs/${ids.done}`,
    `jobs/${ids.dead}`,
    `jobs/${ids.waiting}/explain`,
    'nodes',
    'nodes/node-1/jobs',
    'dead',
    'dead/groups',
    'schedules',
    'policy',
    'health',
    'audit',
  ];
}

/** Measures several rounds. The shortest wait counts, because other load on the machine only adds to it. */
async function measure(url: string): Promise<boolean> {
  const options = '-c max_parallel_workers_per_gather=0';
  const timed = await timedPool(
    new pg.Pool({ connectionString: url, max: 1, options, idleTimeoutMillis: 0 }),
  );
  const auth = (): { readonly name: string; readonly role: 'operator' } => ({
    name: 'bench',
    role: 'operator',
  });
  const one = async (table: string): Promise<string> =>
    (await timed.pool.query<{ id: string }>(`select id from pgqueue.${table} limit 1`)).rows[0]?.id ?? '';
  const pages = pagesOf({
    waiting: await one('queue'),
    done: await one('history'),
    dead: await one('dead_letter'),
  });
  const taken = new Map<string, Taken[]>();
  for (let round = 0; round < rounds; round += 1) {
    for (const page of pages) {
      // a dashboard of its own, whose cache is still empty
      const dashboard = createDashboard({
        pool: timed.pool,
        auth,
        databaseRoles: false,
        statementTimeoutMs: 60_000,
      });
      timed.take();
      const response = await dashboard.fetch(new Request(`http://localhost/api/${page}`));
      if (response.status !== 200) throw new Error(`${page}: ${response.status} ${await response.text()}`);
      taken.set(page, [...(taken.get(page) ?? []), timed.take()]);
      await dashboard.close();
    }
  }
  await timed.pool.end();
  return tell(taken);
}

function tell(taken: ReadonlyMap<string, readonly Taken[]>): boolean {
  console.log(`page${' '.repeat(34)}statements  processor, ms  least wait, ms`);
  let within = true;
  for (const [page, rounds] of taken) {
    const cpuMs = middle(rounds.map((round) => round.cpuMs));
    const leastMs = Math.min(...rounds.map(({ ms }) => ms));
    within &&= cpuMs <= boundMs;
    console.log(
      [
        page.replace(/[0-9a-f]{8}-[0-9a-f-]+/, ':id').padEnd(38),
        String(rounds[0]?.count).padStart(10),
        cpuMs.toFixed(1).padStart(15),
        leastMs.toFixed(1).padStart(16),
        cpuMs > boundMs ? '   TOO LONG' : '',
      ].join(''),
    );
  }
  return within;
}

/** Measures and prints the cost of open tabs for each second. */
async function measureTabs(url: string): Promise<boolean> {
  const database = openDatabase({ connectionString: url });
  const [row] = await database.query<{ id: string }>('select id from pgqueue.queue limit 1', []);
  await database.close();
  const pages = livePagesOf(row?.id ?? '');
  let within = true;
  console.log(`\nopen page${' '.repeat(25)}tabs  statements/s  share of a processor`);
  for (const tabs of [1, 5]) {
    const costs = await measureOpen(url, { pages, tabs, ms: Number(values['open-seconds']) * 1_000 });
    for (const { page, perSecond, share } of costs) {
      const isWithin = perSecond <= openBounds.perSecond && share <= openBounds.share;
      within &&= isWithin;
      console.log(
        [
          page.padEnd(34),
          String(tabs).padStart(4),
          perSecond.toFixed(1).padStart(14),
          `${(share * 100).toFixed(2)} %`.padStart(22),
          isWithin ? '' : '   TOO MUCH',
        ].join(''),
      );
    }
  }
  return within;
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

async function run(url: string, isFilled: boolean): Promise<boolean> {
  if (!isFilled) {
    await migrate({ connectionString: url });
    const database = openDatabase({ connectionString: url, queryTimeoutMs: 3_600_000 });
    await fill(database, { jobs, history });
    await count(database);
    await database.close();
  }
  const pages = await measure(url);
  return (await measureTabs(url)) && pages;
}

if (values.filled === undefined) {
  const server = await startServer({ major: 18 });
  try {
    console.log(`PostgreSQL ${server.major}: ${jobs} jobs that wait, ${history} rows of history`);
    process.exitCode = (await run(server.adminUrl, false)) ? 0 : 1;
  } finally {
    await server.stop();
  }
} else {
  process.exitCode = (await run(values.filled, true)) ? 0 : 1;
}
