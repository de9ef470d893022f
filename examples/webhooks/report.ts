import type pg from 'pg';
import type { ReceiverReport } from './messages.ts';

export interface TenantFigures {
  readonly tenant: string;
  readonly enqueued: number;
  readonly delivered: number;
  readonly retried: number;
  readonly dead: number;
  readonly lost: number;
  readonly waitP50Ms: number | null;
  readonly waitP99Ms: number | null;
}

/**
 * The truth, from the shop's own table: an order was committed, so its webhook has exactly one terminal state. Waits are those
 * of jobs that ran once: from enqueue to the start of the handler.
 */
export async function tenantFigures(pool: pg.Pool): Promise<readonly TenantFigures[]> {
  const { rows } = await pool.query<TenantFigures>(`
    with ended as (
      select (h.payload ->> 'event')::uuid as event, true as delivered, h.tries + h.crashes as again,
             extract(epoch from h.started - h.created)::float8 * 1000 as wait_ms
      from pgqueue.history h where h.outcome = 'done'
      union all
      select (d.payload ->> 'event')::uuid, false, 0, null from pgqueue.dead_letter d)
    select o.tenant, count(*)::integer as enqueued,
           count(*) filter (where e.delivered)::integer as delivered,
           count(*) filter (where e.again > 0)::integer as retried,
           count(*) filter (where not e.delivered)::integer as dead,
           count(*) filter (where e.event is null)::integer as lost,
           percentile_cont(0.5) within group (order by e.wait_ms) filter (where e.again = 0) as "waitP50Ms",
           percentile_cont(0.99) within group (order by e.wait_ms) filter (where e.again = 0) as "waitP99Ms"
    from shop_order o left join ended e on e.event = o.id
    group by o.tenant order by o.tenant`);
  return rows;
}

/** Jobs whose order was rolled back: there must be none. */
export async function phantoms(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ phantoms: number }>(`
    select count(*)::integer as phantoms
    from (select payload from pgqueue.queue union all select payload from pgqueue.history
          union all select payload from pgqueue.dead_letter) j
    where j.payload ? 'event' and not exists (select from shop_order o where o.id = (j.payload ->> 'event')::uuid)`);
  return rows[0]?.phantoms ?? 0;
}

/** One line: what each tenant still waits for. */
export async function progressLine(
  pool: pg.Pool,
  seconds: number,
): Promise<{ readonly line: string; readonly ended: number }> {
  const { rows } = await pool.query<{ tenant: string; ended: number; waiting: number }>(`
    select o.tenant, count(*)::integer - count(q.id)::integer as ended, count(q.id)::integer as waiting
    from shop_order o left join pgqueue.queue q on q.payload ->> 'event' = o.id::text
    group by o.tenant order by o.tenant`);
  const tenants = rows.map(({ tenant, ended, waiting }) => `${tenant} ${ended} done, ${waiting} waiting`);
  return {
    line: `${seconds.toFixed(0).padStart(3)} s  ${tenants.join('  |  ')}`,
    ended: rows.reduce((sum, row) => sum + row.ended, 0),
  };
}

export interface Report {
  readonly tenants: readonly TenantFigures[];
  readonly rolledBack: number;
  readonly phantoms: number;
  readonly staleTried: number;
  readonly staleRefused: number;
  readonly leasesLost: number;
  readonly takeoverMs: number;
  /** Sum of the imported catalogue. */
  readonly catalogue: { readonly pages: number; readonly items: number };
  readonly seconds: number;
  readonly receiver: ReceiverReport;
}

const columns: readonly (readonly [keyof TenantFigures, string])[] = [
  ['tenant', 'tenant'],
  ['enqueued', 'enqueued'],
  ['delivered', 'delivered'],
  ['retried', 'retried'],
  ['dead', 'dead'],
  ['lost', 'lost'],
  ['waitP50Ms', 'wait p50'],
  ['waitP99Ms', 'wait p99'],
];

export function reportText(report: Report): string {
  const cell = (figures: TenantFigures, name: keyof TenantFigures): string => {
    const value = figures[name];
    if (name !== 'waitP50Ms' && name !== 'waitP99Ms') return String(value);
    return value === null ? '–' : `${Math.round(Number(value))} ms`;
  };
  const line = (cells: readonly string[]): string => cells.map((text) => text.padStart(11)).join('');
  const sum = (name: 'enqueued' | 'delivered' | 'retried' | 'dead' | 'lost'): number =>
    report.tenants.reduce((total, figures) => total + figures[name], 0);
  const { receiver } = report;
  return [
    '',
    line(columns.map(([, title]) => title)),
    ...report.tenants.map((figures) => line(columns.map(([name]) => cell(figures, name)))),
    line([
      'all',
      ...(['enqueued', 'delivered', 'retried', 'dead', 'lost'] as const).map((name) => String(sum(name))),
    ]),
    '',
    `business transactions rolled back   ${report.rolledBack} (webhooks left behind by them: ${report.phantoms})`,
    `requests at the receiver            ${receiver.requests}, of which it failed ${receiver.failures}; forged ${receiver.forged}`,
    `events accepted there               ${receiver.accepted}; more than once ${receiver.duplicates} (at least once: a killed worker's deliveries are repeated)`,
    `stale settles refused               ${report.staleRefused} of ${report.staleTried} (with the tokens that the reset nodes held); the node that came back gave up ${report.leasesLost}`,
    `catalogue imported                  ${report.catalogue.pages} pages, ${report.catalogue.items} items, summed up by a flow during all of that`,
    `scheduler takeover                  ${(report.takeoverMs / 1_000).toFixed(1)} s from kill -9 to the standby's first batch`,
    `lost                                ${sum('lost')}`,
    `took                                ${report.seconds.toFixed(1)} s`,
  ].join('\n');
}
