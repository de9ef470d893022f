import type { Database } from '../connection/database.ts';

/** Settings of a queue. */
export interface StoredSettings {
  readonly paused: boolean;
  readonly pool: string;
  readonly retentionMs: number;
  readonly concurrency: number | null;
  readonly keyConcurrency: number | null;
  readonly rate: { readonly perSecond: number; readonly burst: number } | null;
  readonly keyRate: { readonly perSecond: number; readonly burst: number } | null;
  readonly keyPending: number | null;
  readonly weight: number;
}

/** Settings of a queue for which none were ever set. */
export const defaultSettings: StoredSettings = {
  paused: false,
  pool: 'default',
  retentionMs: 7 * 86_400_000,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  keyPending: null,
  weight: 1,
};

/** Reads the settings of all queues that have any, and the time of their last change. */
export async function readSettings({
  query,
  schema,
}: Database): Promise<ReadonlyMap<string, { readonly settings: StoredSettings; readonly updated: Date }>> {
  const rows = await query<StoredSettings & { queue: string; updated: Date }>(
    `select c.queue, c.updated, c.paused, c.pool, extract(epoch from c.retention)::float8 * 1000 as "retentionMs", c.concurrency,
            c.key_concurrency as "keyConcurrency", c.key_pending as "keyPending", c.weight,
            case when c.rate is not null then jsonb_build_object('perSecond', c.rate, 'burst', c.rate_burst) end as rate,
            case when c.key_rate is not null then jsonb_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end as "keyRate"
     from ${schema}.queue_config c order by c.queue`,
    [],
  );
  return new Map(rows.map(({ queue, updated, ...settings }) => [queue, { settings, updated }]));
}
