import type { Seed } from '../../support/seed.ts';

/** Checks whose findings other tests show: four need a session beside, one needs roles, and schedules have their own place. */
export const elsewhere: readonly string[] = [
  'read_only',
  'full_notify_queue',
  'hidden_snapshots',
  'history_lock',
  'old_snapshot',
  'roles_without_rights',
  'unreadable_schedules',
];

/** States that only people can mend, and what takes them back. */
export const unmended = ({ sql }: Pick<Seed, 'sql'>) => [
  {
    check: 'unlogged_tables',
    mendable: false,
    seed: async () => {
      await sql('alter table pgqueue.queue set unlogged');
      return ['queue'];
    },
    undo: 'alter table pgqueue.queue set logged',
  },
  {
    check: 'silent_leader',
    mendable: false,
    seed: async () => {
      await sql(
        `update pgqueue.scheduler_lease set leader = 'l', epoch = 7, expires = clock_timestamp() + interval '1 hour'`,
      );
      await sql(`insert into pgqueue.scheduler_report (leader, epoch, written, report)
        values ('l', 7, clock_timestamp() - interval '2 minutes', '{}')`);
      return ['l'];
    },
  },
];

/** Puts jobs into their last tables, without their having run. */
export function endsOf({ sql }: Pick<Seed, 'sql'>): {
  readonly bury: (id: string) => Promise<void>;
  readonly finish: (id: string, finished?: string) => Promise<void>;
} {
  return {
    bury: async (id) => {
      await sql(
        `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
           payload_version, attributes, payload, errors)
         values ($1, 'default', 'hello', '', 0, 'gave_up', 1, 20, 0, 3, now(), now(), 1, '{}', '{}', '[]')`,
        [id],
      );
    },
    finish: async (id, finished = 'now') => {
      await sql(
        `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload)
         values ($1, 'default', 'hello', '', 0, 'done', 0, 0, now(), $2, 1, '{}', '{}')`,
        [id, finished],
      );
    },
  };
}

/** Schedulers whose policies differ; that of one which runs no more counts nothing. */
export function policyBreakage({ sql }: Pick<Seed, 'sql'>) {
  return {
    check: 'policies_that_differ',
    mendable: false,
    seed: async (): Promise<readonly string[]> => {
      await sql(
        `select pgqueue.note_policy('a', 'shop', 'x'), pgqueue.note_policy('b', 'shop', 'y'), pgqueue.note_policy('c', 'shop', 'x')`,
      );
      await sql(
        `insert into pgqueue.scheduler_policy values ('d', 'old', 'z', now() - interval '2 minutes')`,
      );
      return ['a with shop', 'b with shop', 'c with shop'];
    },
  };
}

/** Objects of the migrations that are gone, or off. */
export function objectsBreakage({ sql }: Pick<Seed, 'sql'>) {
  return {
    check: 'missing_objects',
    mendable: false,
    seed: async (): Promise<readonly string[]> => {
      await sql(`alter table pgqueue.history_default rename to away`);
      await sql(`alter function pgqueue.dispatch rename to away`);
      await sql(`alter view pgqueue.overview rename to overview_away`);
      await sql(`alter table pgqueue.queue disable trigger queue_move`);
      return ['function dispatch', 'table history_default', 'trigger queue_move', 'view overview'];
    },
    undo: `alter table pgqueue.away rename to history_default; alter function pgqueue.away rename to dispatch;
      alter view pgqueue.overview_away rename to overview; alter table pgqueue.queue enable trigger queue_move`,
  };
}
