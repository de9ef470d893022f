import type { Target } from '../../connection/target.ts';
import { ask } from '../../connection/target.ts';

/** Leader of an installation, with what it tells of a shared limit and of its use of it. */
export interface LeaseRequest {
  readonly limit: string;
  /** Number of the installation. */
  readonly installation: number;
  readonly epoch: number;
  /** Most jobs in flight, or the burst of a rate. */
  readonly size: number;
  /** Null: the limit is a concurrency. */
  readonly perSecond: number | null;
  /** Number of the answer that the leader keeps to; 0: none. */
  readonly seen: number;
  readonly inFlight: number;
  /** Part that it could use; null: all it can get. */
  readonly wants: number | null;
  readonly leaseMs: number;
}

/** Part of a shared limit, leased by its home. */
export interface LeasedPart {
  readonly number: number;
  readonly part: number;
  /** Part of the rate, a second; 0 for a concurrency. */
  readonly rate: number;
  /** The limit as it counts for all. */
  readonly size: number;
  readonly perSecond: number | null;
}

/**
 * Leases an installation its part of a shared limit in the home of the limit: the SQL function `lease_limit`.
 * @throws 55000: the limit is of another kind there; PQ002: a later leader has leased
 */
export async function leaseLimit({ query, schema }: Target, request: LeaseRequest): Promise<LeasedPart> {
  const { limit, installation, epoch, size, perSecond, seen, inFlight, wants, leaseMs } = request;
  const [row] = await query<LeasedPart>(
    `select number::float8 as number, part, rate, size, per_second as "perSecond"
     from ${schema}.lease_limit($1, $2, $3, p_size => $4, p_per_second => $5::float8, p_seen => $6,
       p_in_flight => $7, p_wants => $8::integer, p_lease_ms => $9)`,
    [limit, installation, epoch, size, perSecond, seen, inFlight, wants, leaseMs],
  );
  if (row === undefined) throw new Error(`the home of shared limit ${limit} gave no answer`);
  return row;
}

/** Part of one installation in a shared limit, as the home of the limit knows it. */
export interface SharedPart {
  /** Number of the installation. */
  readonly installation: number;
  /** Jobs that it may have in flight, or its part of the burst. */
  readonly part: number;
  /** Part of the rate, a second. Null: the limit is a concurrency. */
  readonly perSecond: number | null;
  /** Most that it may still use, until it confirms a smaller part. Nobody else gets it. */
  readonly reserved: number;
  /** Jobs in flight, as it told. Null: the limit is a rate. */
  readonly inFlight: number | null;
  /** Milliseconds since its lease ended. 0: it holds one. */
  readonly silentMs: number;
  /** Size and rate that it tells. */
  readonly told: { readonly size: number; readonly perSecond: number | null };
}

/** A limit over several installations, in its home. */
export interface SharedLimit {
  readonly name: string;
  readonly kind: 'concurrency' | 'rate';
  /** Most jobs in flight, or the burst. */
  readonly size: number;
  /** Null: the limit is a concurrency. */
  readonly perSecond: number | null;
  readonly parts: readonly SharedPart[];
}

interface PartRow {
  readonly name: string;
  readonly size: number;
  readonly per_second: number | null;
  readonly installation: number | null;
  readonly part: number;
  readonly rate: number;
  readonly reserved: number;
  readonly in_flight: number;
  readonly silent_ms: number;
  readonly told_size: number;
  readonly told_per_second: number | null;
}

/** Reads the shared limits whose home is this installation, by name. */
export async function readSharedLimits({ query, schema }: Target): Promise<readonly SharedLimit[]> {
  const rows = await query<PartRow>(
    `select l.name, l.size, l.per_second, m.installation::integer as installation, m.part, m.rate, m.reserved, m.in_flight,
            greatest(0, extract(epoch from clock_timestamp() - m.expires) * 1000)::float8 as silent_ms,
            m.size as told_size, m.per_second as told_per_second
     from ${schema}.shared_limit l left join ${schema}.shared_limit_part m on m.name = l.name
     order by l.name, m.installation`,
    [],
  );
  const limits = new Map<string, SharedLimit & { readonly parts: SharedPart[] }>();
  for (const row of rows) {
    const { name, size, per_second: perSecond } = row;
    const kind = perSecond === null ? 'concurrency' : 'rate';
    const limit = limits.get(name) ?? { name, kind, size, perSecond, parts: [] };
    limits.set(name, limit);
    if (row.installation === null) continue;
    limit.parts.push({
      installation: row.installation,
      part: row.part,
      perSecond: perSecond === null ? null : row.rate,
      reserved: row.reserved,
      inFlight: perSecond === null ? row.in_flight : null,
      silentMs: Math.round(row.silent_ms),
      told: { size: row.told_size, perSecond: row.told_per_second },
    });
  }
  return [...limits.values()];
}

/**
 * Gives the part of an installation back; resolves to what was reserved for it.
 * @throws P0002: it has none; 55000: its lease has not ended a minute ago
 */
export async function forfeitPart(target: Target, limit: string, installation: number): Promise<number> {
  return (await ask<number>(target, 'forfeit_part($1, $2)', [limit, installation])) ?? 0;
}

/** Removes a shared limit. @throws P0002: there is none; 55000: it was leased less than a minute ago */
export async function removeLimit({ query, schema }: Target, limit: string): Promise<void> {
  await query(`select ${schema}.remove_limit($1)`, [limit]);
}

/** Reports whether a scheduler leads, and the database's time, in Unix milliseconds. */
export async function readLeading(
  { query, schema }: Target,
  { leader, epoch }: { readonly leader: string; readonly epoch: number },
): Promise<{ readonly leads: boolean; readonly nowMs: number }> {
  const [row] = await query<{ readonly leads: boolean; readonly now: number }>(
    `select exists (select from ${schema}.scheduler_lease l where l.leader = $1 and l.epoch = $2) as leads,
            date_part('epoch', clock_timestamp()) * 1000 as now`,
    [leader, epoch],
  );
  return { leads: row?.leads === true, nowMs: row?.now ?? 0 };
}
