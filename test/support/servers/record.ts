// The lines that a system's processes wrote outside the database, and their comparison with the database.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../until.ts';
import type { Acknowledged, Witnessed } from './actors/config.ts';
import { ask } from './server.ts';

export interface Record {
  readonly acknowledged: () => readonly Acknowledged[];
  readonly witnessed: (task?: string) => readonly Witnessed[];
  /**
   * Resolves to the milliseconds from `sinceMs` until the end of a job that was enqueued after it. Fails
   * after `timeoutMs`, far longer than that takes on a busy machine.
   */
  readonly goesOn: (sinceMs: number, timeoutMs?: number) => Promise<number>;
}

export interface Verdict {
  readonly acknowledged: number;
  /** Acknowledged jobs that are in no terminal state. */
  readonly lost: readonly string[];
  readonly twice: readonly string[];
  readonly dead: number;
  /** Number of jobs whose handler ended more than once: allowed, because jobs run at least once. */
  readonly ranAgain: number;
}

export function openRecord(folder: string): Record {
  const lines = (ending: string): readonly unknown[] =>
    readdirSync(folder)
      .filter((name) => name.endsWith(ending))
      .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1)) // the last may be half written
      .map((line) => JSON.parse(line) as unknown);
  const acknowledged: Record['acknowledged'] = () => lines('.acknowledged') as readonly Acknowledged[];
  const witnessed: Record['witnessed'] = (task) =>
    (lines('.witnessed') as readonly Witnessed[]).filter((line) => task === undefined || line.task === task);
  const endOfOneSince = (sinceMs: number): number | undefined => {
    const fresh = new Set(acknowledged().flatMap(({ id, askedMs }) => (askedMs >= sinceMs ? [id] : [])));
    return witnessed().find(({ what, id }) => what === 'end' && fresh.has(id))?.atMs;
  };
  return {
    acknowledged,
    witnessed,
    goesOn: async (sinceMs, timeoutMs = 240_000) => {
      const what = 'a job that was enqueued afterwards to end';
      return Math.round((await until(what, () => endOfOneSince(sinceMs), timeoutMs)) - sinceMs);
    },
  };
}

/** Compares the acknowledged jobs with the database, after all jobs have ended. */
export async function judge(url: string, { acknowledged, witnessed }: Record): Promise<Verdict> {
  const ids = acknowledged().map(({ id }) => id);
  const rows = await ask<{ id: string; n: number; dead: number }>(
    url,
    `select x.id, t.ended + t.dead as n, t.dead from unnest($1::uuid[]) x (id), lateral (
       select (select count(*) from pgqueue.history h where h.id = x.id)::integer as ended,
              (select count(*) from pgqueue.dead_letter d where d.id = x.id)::integer as dead) t`,
    [ids],
  );
  const ends = Map.groupBy(
    witnessed().filter(({ what }) => what === 'end'),
    ({ id }) => id,
  );
  return {
    acknowledged: ids.length,
    lost: rows.flatMap(({ id, n }) => (n === 0 ? [id] : [])),
    twice: rows.flatMap(({ id, n }) => (n > 1 ? [id] : [])),
    dead: rows.filter(({ dead }) => dead > 0).length,
    ranAgain: [...ends.values()].filter(({ length }) => length > 1).length,
  };
}
