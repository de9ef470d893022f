import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Dashboard } from '@pgqueue/dashboard';
import { createDashboard } from '@pgqueue/dashboard';
import pg from 'pg';
import { renewEveryMs, renewalHeader } from '../../packages/dashboard/src/contract/renewal.ts';

/** A page and the requests that it repeats while it is open. */
export interface LivePage {
  readonly page: string;
  readonly asks: readonly (readonly [keyof typeof renewEveryMs, string])[];
}

export function livePagesOf(job: string): readonly LivePage[] {
  const page = (name: string, ...asks: LivePage['asks']): LivePage => ({ page: name, asks });
  return [
    page('overview', ['overview', 'overview?window=hour']),
    page('keys', ['keys', 'keys']),
    page('queues', ['queues', 'queues']),
    page('jobs', ['jobs', 'jobs']),
    page('jobs, by an error', ['jobs', 'jobs?error=ECONNREFUSED%20999']),
    page('one job', ['job', `jobs/${job}`], ['explain', `jobs/${job}/explain`]),
    page('nodes', ['nodes', 'nodes']),
    page('dead letters', ['dead', 'dead'], ['dead-groups', 'dead/groups']),
    page('schedules', ['schedules', 'schedules']),
    page('policy', ['policy', 'policy']),
    page('health', ['health', 'health']),
    page('audit', ['audit', 'audit']),
  ];
}

interface Cost {
  readonly page: string;
  readonly tabs: number;
  readonly perSecond: number;
  /** Share of one processor used by the server's processes that serve this dashboard. */
  readonly share: number;
}

/** Pages measured at the same time; more would slow each other down. */
const atOnce = 4;

/** Measures each page for `ms` milliseconds, with `tabs` tabs, in a dashboard with connections of its own. */
export async function measureOpen(
  url: string,
  { pages, tabs, ms }: { readonly pages: readonly LivePage[]; readonly tabs: number; readonly ms: number },
): Promise<readonly Cost[]> {
  const costs: Cost[] = [];
  for (let from = 0; from < pages.length; from += atOnce) {
    const some = pages.slice(from, from + atOnce);
    costs.push(...(await Promise.all(some.map((page) => measureOne(url, { page, tabs, ms })))));
  }
  return costs;
}

const settledMs = 10_000;

async function measureOne(
  url: string,
  { page, tabs, ms }: { readonly page: LivePage; readonly tabs: number; readonly ms: number },
): Promise<Cost> {
  const options = '-c max_parallel_workers_per_gather=0';
  const pool = new pg.Pool({ connectionString: url, max: 6, options, idleTimeoutMillis: 0 });
  const watched = watch(pool);
  const dashboard = createDashboard({
    pool,
    auth: () => ({ name: 'bench', role: 'operator' }),
    databaseRoles: false,
    statementTimeoutMs: 60_000,
  });
  const closed = new AbortController();
  const open = Array.from({ length: tabs }, (_, n) =>
    tab(dashboard, page, { signal: closed.signal, afterMs: (n * 5_000) / tabs }),
  );
  await delay(settledMs); // the cost of opening a page is measured elsewhere
  const [statements, cpuMs, begun] = [watched.statements(), watched.cpuMs(), performance.now()];
  await delay(ms);
  const tookMs = performance.now() - begun;
  const cost = {
    page: page.page,
    tabs,
    perSecond: ((watched.statements() - statements) * 1_000) / tookMs,
    share: (watched.cpuMs() - cpuMs) / tookMs,
  };
  closed.abort();
  await Promise.all(open);
  await dashboard.close();
  await pool.end();
  return cost;
}

/**
 * Counts the pool's statements, without those that begin and end transactions, and the processor time of its
 * connections.
 */
function watch(pool: pg.Pool): { readonly statements: () => number; readonly cpuMs: () => number } {
  let statements = 0;
  const processes = new Set<number>();
  pool.on('error', () => {}); // the server ends first
  pool.on('connect', (client) => {
    const { processID } = client as pg.PoolClient & { readonly processID?: number | null };
    if (typeof processID === 'number') processes.add(processID);
    const query = client.query.bind(client) as (...args: readonly unknown[]) => unknown;
    const counted = (...args: readonly unknown[]): unknown => {
      const [text] = args;
      if (typeof text !== 'string' || !/^(?:begin|commit|rollback|set local)/.test(text)) statements += 1;
      return query(...args);
    };
    Object.assign(client, { query: counted });
  });
  const nsOf = (process: number): number =>
    Number(readFileSync(`/proc/${process}/schedstat`, 'utf8').split(' ')[0]);
  return {
    statements: () => statements,
    cpuMs: () => [...processes].reduce((sum, process) => sum + nsOf(process), 0) / 1e6,
  };
}

/** Acts as a browser tab: listens for events, requests its page, and requests it again. */
async function tab(
  dashboard: Dashboard,
  { asks }: LivePage,
  { signal, afterMs }: { readonly signal: AbortSignal; readonly afterMs: number },
): Promise<void> {
  if (afterMs > 0) await delay(afterMs);
  const ask = async (path: string, headers: Readonly<Record<string, string>>): Promise<Response> => {
    const response = await dashboard.fetch(new Request(`http://localhost/api/${path}`, { headers }));
    // 503: the machine is busy; a browser shows that, and asks again at the next renewal
    if (response.status !== 200 && response.status !== 503)
      throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  };
  const reader = (await ask('live', {})).body?.getReader();
  const listening = (async (): Promise<void> => {
    let part = await reader?.read();
    while (part?.done === false) part = await reader?.read();
  })();
  const asking = asks.map(async ([what, path]) => {
    for (let headers = {}; !signal.aborted; headers = { [renewalHeader]: '1' }) {
      await (await ask(path, headers)).text();
      await delay(renewEveryMs[what], undefined, { signal }).catch(() => {}); // the tab is closed
    }
  });
  await Promise.all(asking);
  await reader?.cancel();
  await listening;
}
