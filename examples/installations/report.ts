import type { Installation } from '@pgqueue/router';
import pg from 'pg';
import { vendorLimit } from './tasks.ts';

/** A job that is known to be enqueued. */
export interface Sent {
  readonly id: string;
  readonly tenant: string;
}

/** A call to the vendor. Times in Unix milliseconds. */
export interface Called {
  readonly tenant: string;
  readonly beganAt: number;
  readonly endedAt: number;
}

/** Ends of a job, one for each time that it came to an end. */
export interface Ended {
  readonly outcome: string;
  readonly waitedMs: number | null;
}

/** Reads the ends of all jobs, by their ids, from all installations. */
export async function endsOf(
  installations: readonly Installation[],
): Promise<ReadonlyMap<string, readonly Ended[]>> {
  const ends = new Map<string, Ended[]>();
  for (const { connectionString } of installations) {
    const client = new pg.Client({ connectionString });
    await client.connect();
    const { rows } = await client.query<Ended & { readonly id: string }>(`
      select id, outcome, extract(epoch from started - created)::float8 * 1000 as "waitedMs" from pgqueue.history
      union all select id, 'dead', null from pgqueue.dead_letter`);
    await client.end();
    for (const { id, ...end } of rows) ends.set(id, [...(ends.get(id) ?? []), end]);
  }
  return ends;
}

/** Returns the largest number of calls that ran at one moment. */
export function mostAtOnce(calls: readonly Called[]): number {
  const steps = calls
    .flatMap(({ beganAt, endedAt }) => [
      { at: beganAt, change: 1 },
      { at: endedAt, change: -1 },
    ])
    .toSorted((a, b) => a.at - b.at || b.change - a.change);
  let [count, most] = [0, 0];
  for (const { change } of steps) {
    count += change;
    most = Math.max(most, count);
  }
  return most;
}

/** One line: what each tenant has done and still waits for. */
export function linesOf(
  tenants: readonly string[],
  {
    sent,
    calls,
    seconds,
  }: { readonly sent: readonly Sent[]; readonly calls: readonly Called[]; readonly seconds: number },
): string {
  const parts = tenants.map((tenant) => {
    const done = calls.filter((call) => call.tenant === tenant).length;
    const all = sent.filter((job) => job.tenant === tenant).length;
    return `${tenant} ${done} done, ${Math.max(0, all - done)} waiting`;
  });
  return `${seconds.toFixed(0).padStart(3)} s  ${parts.join('  |  ')}`;
}

/** Prints the report. Returns the exit code. */
export function reportOf(
  tenants: readonly string[],
  {
    sent,
    calls,
    ends,
  }: {
    readonly sent: readonly Sent[];
    readonly calls: readonly Called[];
    readonly ends: ReadonlyMap<string, readonly Ended[]>;
  },
): number {
  const rows = tenants.map((tenant) => {
    const own = sent.filter((job) => job.tenant === tenant).map(({ id }) => ends.get(id) ?? []);
    const waits = own.flatMap(([first]) => first?.waitedMs ?? []).toSorted((a, b) => a - b);
    const at = (share: number): string => `${Math.round(waits[Math.floor(waits.length * share)] ?? 0)} ms`;
    const done = own.filter(([first]) => first?.outcome === 'done').length;
    const lost = own.filter(({ length }) => length === 0).length;
    const twice = own.filter(({ length }) => length > 1).length;
    return { tenant, enqueued: own.length, done, lost, twice, 'wait p50': at(0.5), 'wait p99': at(0.99) };
  });
  const sum = (name: 'lost' | 'twice'): number => rows.reduce((total, row) => total + row[name], 0);
  const most = mostAtOnce(calls);
  console.table(rows);
  console.log(
    `calls at once                       ${most} at most, of ${vendorLimit} that the limit over all allows`,
  );
  console.log(`limit excess                        ${Math.max(0, most - vendorLimit)}`);
  console.log(`ended twice                         ${sum('twice')}`);
  console.log(`lost                                ${sum('lost')}`);
  return sum('lost') + sum('twice') > 0 || most > vendorLimit ? 1 : 0;
}
