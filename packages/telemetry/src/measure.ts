import type { PgQueueEvent } from '@pgqueue/core';
import type { CounterName, Labels, Sink } from './instruments.ts';

type Measures = {
  readonly [Type in PgQueueEvent['type']]:
    | ((event: Extract<PgQueueEvent, { type: Type }>, to: Sink) => void)
    | null;
};

const verdicts: Readonly<Record<Extract<PgQueueEvent, { type: 'job.settled' }>['verdict'], CounterName>> = {
  done: 'jobs_done',
  retry: 'jobs_retried',
  dead: 'jobs_dead',
  snooze: 'jobs_snoozed',
  cancelled: 'jobs_cancelled',
};

const none: Labels = {};

/** Numbers of events. Null: the event is for the log alone. */
const measures: Measures = {
  enqueued: ({ queue, task, count }, to) => to.add('jobs_enqueued', { queue, task }, count),
  tick: ({ batch, durationMs }, to) => {
    to.record('tick_duration', none, durationMs / 1_000);
    for (const { queue, task, jobs } of batch) to.add('jobs_dispatched', { queue, task }, jobs);
  },
  'job.started': ({ queue, task, attempt, waitedMs }, to) => {
    const labels = { queue, task };
    to.add('jobs_started', labels, 1);
    // of a later attempt it would be the time since the enqueue, too
    if (attempt === 1) to.record('job_wait', labels, waitedMs / 1_000);
  },
  'job.settled': ({ queue, task, verdict, durationMs }, to) => {
    const labels = { queue, task };
    to.add(verdicts[verdict], labels, 1);
    to.record('attempt_duration', labels, durationMs / 1_000);
  },
  'job.crashed': ({ queue, task, durationMs }, to) => {
    const labels = { queue, task };
    to.add('jobs_crashed', labels, 1);
    to.record('attempt_duration', labels, durationMs / 1_000);
  },
  'job.timeout': ({ task }, to) => to.add('jobs_timed_out', { task }, 1),
  'job.stale': ({ task }, to) => to.add('jobs_stale', { task }, 1),
  'codec.key_missing': ({ task }, to) => to.add('keys_missing', { task }, 1),
  'leases.reaped': ({ jobs }, to) => to.add('leases_reaped', none, jobs),
  'node.lost': (_event, to) => to.add('nodes_lost', none, 1),
  'node.fenced': (_event, to) => to.add('nodes_fenced', none, 1),
  'flow.ended': ({ name, state }, to) => to.add('flows_ended', { flow: name, state }, 1),
  'schedule.fired': (_event, to) => to.add('schedules_fired', none, 1),
  'schedule.failed': (_event, to) => to.add('schedules_failed', none, 1),
  'leader.elected': (_event, to) => {
    to.add('leaders_elected', none, 1);
    to.set('leader', none, 1);
  },
  'leader.lost': (_event, to) => to.set('leader', none, 0),
  'policy.failed': ({ part }, to) => to.add('policy_failures', { part }, 1),
  'database.error': ({ during }, to) => to.add('database_errors', { during }, 1),
  'policy.differs': null,
  'policy.prepare_failed': null,
  'tick.unreadable': null,
  'shadow.compared': null,
  'schedule.skipped': null,
  'node.registered': null,
  'node.ended': null,
  'node.draining': null,
  'node.blocked': null,
  'node.forgot': null,
  'node.thread_failed': null,
  'settler.full': null,
  'settler.drained': null,
  'job.floating': null,
  'job.late_error': null,
  'job.invalid': null,
};

/** Turns an event into numbers. */
export function measure(event: PgQueueEvent, to: Sink): void {
  const take = measures[event.type] as ((event: PgQueueEvent, to: Sink) => void) | null;
  take?.(event, to);
}
