import type { Stage } from '../stage.ts';
import { hostileTexts } from './texts.ts';

/** Fields of the database that take a stranger's text, and into each of which each of the hostile ones is put. */
export const fields = [
  'queue',
  'task',
  'key',
  'unique key',
  'pool',
  'attribute name',
  'attribute',
  'payload name',
  'payload',
  'result',
  'checkpoint',
  'progress',
  'trace',
  'error name',
  'error message',
  'error stack',
  'node id',
  'node software',
  'node task',
  'schedule name',
  'schedule expression',
  'schedule time zone',
  'schedule payload',
  'audit actor',
  'audit action',
  'audit target',
  'audit details',
  'flow name',
  'flow key',
  'flow unique key',
  'flow reason',
  'step name',
  'step result',
] as const;

/** Ids of jobs that are hostile all over. */
export interface HostileJobs {
  readonly waiting: readonly string[];
  readonly running: readonly string[];
  readonly done: readonly string[];
  readonly dead: readonly string[];
  readonly flows: readonly string[];
}

/** Past every parser and check of ours: the database takes them, as it takes a plain SQL insert from any language. */
export async function plant(stage: Stage): Promise<HostileJobs> {
  const planted = { waiting: [], running: [], done: [], dead: [], flows: [] } as Record<
    keyof HostileJobs,
    string[]
  >;
  for (const [index, text] of hostileTexts.entries()) {
    // as new as can be: lists begin with them
    const at = Date.now().toString(16).padStart(12, '0');
    const id = (kind: number): string =>
      `${at.slice(0, 8)}-${at.slice(8)}-7${kind}00-8000-${String(index).padStart(12, '0')}`;
    await asWaiting(stage, { id: id(1), text });
    await asRunning(stage, { id: id(2), text });
    await asDone(stage, { id: id(3), text });
    await asDead(stage, { id: id(4), text });
    await asFlow(stage, { id: id(5), text });
    await elsewhere(stage, text);
    planted.waiting.push(id(1));
    planted.running.push(id(2));
    planted.done.push(id(3));
    planted.dead.push(id(4));
    planted.flows.push(id(5));
  }
  return planted;
}

interface Row {
  readonly id: string;
  readonly text: string;
}

const errorSql = `jsonb_build_array(jsonb_build_object('kind', 'error', 'name', $2::text, 'message', $2::text,
  'stack', $2::text, 'node', $2::text, 'try', 1, 'at', now()))`;
const documentSql = `jsonb_build_object($2::text, $2::text, 'list', jsonb_build_array($2::text))`;

async function asWaiting({ sql }: Stage, { id, text }: Row): Promise<void> {
  await sql(
    `insert into pgqueue.queue (id, queue, task, key, unique_key, attributes, payload, errors, trace, checkpoint, tries)
     values ($1, left($2, 100), left($2, 200), left($2, 200), left($2, 500), ${documentSql} - 'list', ${documentSql}, ${errorSql},
             jsonb_build_object('traceparent', $2::text), ${documentSql}, 1)`,
    [id, text],
  );
}

async function asRunning({ sql }: Stage, { id, text }: Row): Promise<void> {
  await sql(
    `select * from pgqueue.register_node(left($1, 200), jsonb_build_object($1::text, '{"min": 1, "max": 1, "timeoutMs": 60000}'::jsonb), 4)`,
    [text],
  );
  await sql(
    `update pgqueue.node set pool = left($1, 100), software = $1, lost_after_ms = 86400000 where id = left($1, 200)`,
    [text],
  );
  await sql(
    `insert into pgqueue.queue (id, queue, task, key, payload) values ($1, left($2, 100), left($2, 200), left($2, 200), ${documentSql})`,
    [id, text],
  );
  await sql(
    `insert into pgqueue.work_queue (id, version, pool, task, lock_key, lock_token, lock_timeout, started, progress)
     values ($1, 1, left($2, 100), left($2, 200), left($2, 200), gen_random_uuid(), now() + interval '1 day', now(), ${documentSql})`,
    [id, text],
  );
}

async function asDone({ sql }: Stage, { id, text }: Row): Promise<void> {
  await sql(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished,
       payload_version, node, attributes, payload, result, errors)
     values ($1, left($2, 100), left($2, 200), left($2, 200), 0, 'done', 1, 0, now(), now(), now(), 1, left($2, 200),
             ${documentSql} - 'list', ${documentSql}, ${documentSql}, ${errorSql})`,
    [id, text],
  );
}

async function asDead({ sql }: Stage, { id, text }: Row): Promise<void> {
  await sql(
    `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
       payload_version, node, attributes, payload, errors)
     values ($1, left($2, 100), left($2, 200), left($2, 200), 0, 'gave_up', 1, 1, 0, 3, now(), now(), 1, left($2, 200),
             ${documentSql} - 'list', ${documentSql}, ${errorSql})`,
    [id, text],
  );
}

/** A failed flow, whose step ended with a dead job; and a signal that was given. */
async function asFlow({ sql }: Stage, { id, text }: Row): Promise<void> {
  await sql(
    `insert into pgqueue.flow (id, name, key, unique_key, state, reason, ended)
     values ($1, left($2, 200), left($2, 200), left($2, 500), 'failed', $2, now())`,
    [id, text],
  );
  await sql(
    `insert into pgqueue.flow_step (flow, step, name, kind, state, outcome, open_needs, added, failed, ended)
     values ($1, 0, left($2, 200), 'jobs', 'ended', 'failed', 0, 1, 1, now()),
            ($1, 1, left('2 ' || $2, 200), 'signal', 'ended', 'done', 0, 0, 0, now())`,
    [id, text],
  );
  await sql(
    `update pgqueue.flow_step set feeds = '{1}', conditions = '{ended}' where flow = $1 and step = 0`,
    [id],
  );
  await sql(`update pgqueue.flow_step set needs = '{0}' where flow = $1 and step = 1`, [id]);
  await sql(
    `insert into pgqueue.flow_result (flow, step, job, outcome, result)
     values ($1, 0, gen_random_uuid(), 'dead', ${documentSql}), ($1, 1, $1, 'done', ${documentSql})`,
    [id, text],
  );
}

async function elsewhere({ sql }: Stage, text: string): Promise<void> {
  await sql(
    `insert into pgqueue.schedule (name, cron, timezone, task, payload, next_slot)
     values (left($1, 200), left($1, 100), left($1, 100), left($1, 200), jsonb_build_object($1::text, $1::text), now() + interval '1 day')`,
    [text],
  );
  await sql(
    `insert into pgqueue.audit (actor, via, db_user, action, target, details, result)
     values (left($1, 200), 'dashboard', $1, left($1, 100), left($1, 500), jsonb_build_object($1::text, $1::text), jsonb_build_object('x', $1::text))`,
    [text],
  );
}
