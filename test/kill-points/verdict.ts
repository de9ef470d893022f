import type { Database, Operator } from '@pgqueue/postgres';

export interface Finished {
  readonly database: Database;
  readonly operator: Operator;
  /** Jobs that existed before, or that a producer was told of. */
  readonly known: readonly string[];
}

/**
 * Queries for violations after all jobs have ended; each selects one row for each violation. Tries of
 * `effect` are not counted: its handler fails if its transaction breaks.
 */
const questions: Readonly<Record<string, string>> = {
  'known jobs without exactly one end': `
    select k.id::text as what from unnest($1::uuid[]) k (id)
    where (select count(*) from pgqueue.history h where h.id = k.id) + (select count(*) from pgqueue.dead_letter d where d.id = k.id) <> 1`,
  'jobs that ended twice': `select h.id::text as what from pgqueue.history h group by h.id having count(*) > 1`,
  'dead jobs': `select d.id || ' ' || d.reason as what from pgqueue.dead_letter d`,
  'effects that did not happen exactly once': `
    select h.id::text as what from pgqueue.history h
    where h.task = 'effect' and (select count(*) from effect e where e.job = h.id) <> 1`,
  'effects of nothing': `select e.job::text as what from effect e where not exists (select from pgqueue.history h where h.id = e.job)`,
  'tries that were not counted exactly once': `
    select h.id || ' ' || h.tries as what from pgqueue.history h where h.task <> 'effect' and h.tries <> (h.task = 'fails')::integer`,
  'schedules whose one slot has not exactly one job': `
    select s.name as what from pgqueue.schedule s
    where s.last_slot is not null and (select count(*) from pgqueue.history h where h.task = s.task and h.id <> all ($1::uuid[])) <> 1`,
  'jobs and their application apart': `
    select a.job::text as what from application a where not exists (select from pgqueue.history h where h.id = a.job)`,
  'rows that are left': `
    select id::text as what from pgqueue.queue union all select coalesce(id::text, jobs::text) from pgqueue.work_queue`,
};

/** Returns the problems of a run; empty for a good one. Waits for nothing: all jobs have ended. */
export async function problemsOf({ database, operator, known }: Finished): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const [name, sql] of Object.entries(questions)) {
    const values = sql.includes('$1') ? [known] : [];
    const rows = await database.query<{ what: string }>(sql, values);
    if (rows.length > 0) problems.push(`${name}: ${rows.map(({ what }) => what).join(', ')}`);
  }
  const { findings } = await operator.doctor();
  for (const { check, severity, samples } of findings) {
    if (severity === 'error') problems.push(`doctor: ${check} ${samples.join(', ')}`);
  }
  return problems;
}
