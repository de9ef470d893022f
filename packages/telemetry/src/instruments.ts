/** A number that is measured. Times are in seconds. */
export interface Instrument {
  readonly help: string;
  readonly labels: readonly Label[];
  /** Roles whose processes count it. Default: all of them. */
  readonly role?: Role;
  /** Its name in OpenTelemetry, where the semantic conventions for messaging have one; else it is made of its own. */
  readonly convention?: string;
}

export interface Counter extends Instrument {
  /** Unit in OpenTelemetry: the thing that is counted, in braces. */
  readonly unit: `{${string}}`;
}

/** Role of a process. */
export type Role = 'producer' | 'scheduler' | 'worker';

/** Labels of a metric. */
export type Label = 'queue' | 'task' | 'key' | 'flow' | 'state' | 'reason' | 'part' | 'pool' | 'during';

const ofTask: readonly Label[] = ['queue', 'task'];

/** The name of a counter. */
export type CounterName =
  | 'jobs_enqueued'
  | 'jobs_dispatched'
  | 'jobs_started'
  | 'jobs_done'
  | 'jobs_retried'
  | 'jobs_dead'
  | 'jobs_snoozed'
  | 'jobs_cancelled'
  | 'jobs_crashed'
  | 'jobs_timed_out'
  | 'jobs_stale'
  | 'keys_missing'
  | 'leases_reaped'
  | 'nodes_lost'
  | 'nodes_fenced'
  | 'flows_ended'
  | 'schedules_fired'
  | 'schedules_failed'
  | 'leaders_elected'
  | 'policy_failures'
  | 'database_errors';

/** Counters, which only grow. In Prometheus: `pgqueue_`, the name, `_total`. */
export const counters: Readonly<Record<CounterName, Counter>> = {
  jobs_enqueued: {
    unit: '{message}',
    role: 'producer',
    help: 'Jobs that this producer enqueued.',
    labels: ofTask,
    convention: 'messaging.client.sent.messages',
  },
  jobs_dispatched: {
    unit: '{job}',
    role: 'scheduler',
    help: 'Jobs that this scheduler made work items of.',
    labels: ofTask,
  },
  jobs_started: {
    unit: '{message}',
    role: 'worker',
    help: 'Attempts that began on this worker.',
    labels: ofTask,
    convention: 'messaging.client.consumed.messages',
  },
  jobs_done: { unit: '{job}', role: 'worker', help: 'Jobs that got done on this worker.', labels: ofTask },
  jobs_retried: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts that failed on this worker, and are tried again.',
    labels: ofTask,
  },
  jobs_dead: {
    unit: '{job}',
    role: 'worker',
    help: 'Jobs that became dead letters on this worker.',
    labels: ofTask,
  },
  jobs_snoozed: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts that were put off on this worker.',
    labels: ofTask,
  },
  jobs_cancelled: {
    unit: '{job}',
    role: 'worker',
    help: 'Jobs that were cancelled while they ran on this worker.',
    labels: ofTask,
  },
  jobs_crashed: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts whose own thread or process died on this worker.',
    labels: ofTask,
  },
  jobs_timed_out: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts that were not done when their lease ended.',
    labels: ['task'],
  },
  keys_missing: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts that lacked the key of an encrypted value, or had another one under its id.',
    labels: ['task'],
  },
  jobs_stale: {
    unit: '{attempt}',
    role: 'worker',
    help: 'Attempts whose lease another had taken meanwhile.',
    labels: ['task'],
  },
  leases_reaped: {
    unit: '{lease}',
    role: 'scheduler',
    help: 'Leases that ran out, and were taken back by this scheduler.',
    labels: [],
  },
  nodes_lost: {
    unit: '{node}',
    role: 'scheduler',
    help: 'Nodes that this scheduler found silent for too long.',
    labels: [],
  },
  nodes_fenced: {
    unit: '{node}',
    role: 'worker',
    help: 'Times that this worker aborted its jobs, since no heartbeat arrived.',
    labels: [],
  },
  flows_ended: {
    unit: '{flow}',
    role: 'scheduler',
    help: 'Flows that ended, by their name and state (done, failed, cancelled).',
    labels: ['flow', 'state'],
  },
  schedules_fired: {
    unit: '{schedule}',
    role: 'scheduler',
    help: 'Slots of schedules that became jobs.',
    labels: [],
  },
  schedules_failed: {
    unit: '{schedule}',
    role: 'scheduler',
    help: 'Slots of schedules that could not become jobs.',
    labels: [],
  },
  leaders_elected: {
    unit: '{leader}',
    role: 'scheduler',
    help: 'Times that this scheduler began to lead.',
    labels: [],
  },
  policy_failures: {
    unit: '{failure}',
    role: 'scheduler',
    help: 'Failures of the policy, by gate, order or function.',
    labels: ['part'],
  },
  database_errors: {
    unit: '{error}',
    help: 'Errors of the database, by what was being done.',
    labels: ['during'],
  },
};

/** The name of a histogram. */
export type HistogramName = 'attempt_duration' | 'job_wait' | 'tick_duration';

/** Durations, in seconds. In Prometheus: `pgqueue_`, the name, `_seconds`. */
export const histograms: Readonly<
  Record<HistogramName, Instrument & { readonly buckets: readonly number[] }>
> = {
  attempt_duration: {
    role: 'worker',
    help: 'From the start of an attempt until its handler ended.',
    labels: ofTask,
    convention: 'messaging.process.duration',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200],
  },
  job_wait: {
    role: 'worker',
    help: 'From the enqueue of a job until its first attempt began, delays that were asked for included.',
    labels: ofTask,
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200],
  },
  tick_duration: {
    role: 'scheduler',
    help: 'Of the ticks of this scheduler: read, plan and write.',
    labels: [],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
  },
};

/** The name of a gauge. */
export type GaugeName =
  | 'leader'
  | 'leaders'
  | 'leader_epoch'
  | 'report_age_seconds'
  | 'queue_jobs'
  | 'queue_exact'
  | 'queue_paused'
  | 'queue_oldest_seconds'
  | 'queue_claim_age_seconds'
  | 'queue_retry_ratio'
  | 'held_jobs'
  | 'key_jobs'
  | 'nodes'
  | 'slots'
  | 'wanted_slots'
  | 'oldest_snapshot_seconds'
  | 'numbers_up';

/** Gauges, which go up and down. In Prometheus: `pgqueue_` and the name. All but `leader` are read from the database. */
export const gauges: Readonly<Record<GaugeName, Instrument>> = {
  leader: { role: 'scheduler', help: 'Whether this scheduler leads: 1 or 0.', labels: [] },
  leaders: { role: 'scheduler', help: 'Schedulers that lead, by the database: 1 or 0.', labels: [] },
  leader_epoch: { role: 'scheduler', help: 'Grows with every new leader.', labels: [] },
  report_age_seconds: { role: 'scheduler', help: 'Since the leader reported what it sees.', labels: [] },
  queue_jobs: { role: 'scheduler', help: 'Jobs by queue and state: the depth.', labels: ['queue', 'state'] },
  queue_exact: {
    role: 'scheduler',
    help: 'Whether the jobs of the queue were all counted (1), or estimated (0).',
    labels: ['queue'],
  },
  queue_paused: { role: 'scheduler', help: 'Whether the queue is paused.', labels: ['queue'] },
  queue_oldest_seconds: {
    role: 'scheduler',
    help: 'Age of the oldest job that could run and does not.',
    labels: ['queue'],
  },
  queue_claim_age_seconds: {
    role: 'scheduler',
    help: 'How long the oldest lease has been held.',
    labels: ['queue'],
  },
  queue_retry_ratio: {
    role: 'scheduler',
    help: 'Failed attempts as a share of those of all jobs that ended in the last five minutes.',
    labels: ['queue'],
  },
  held_jobs: {
    role: 'scheduler',
    help: 'Jobs of the last snapshot that are held, by reason.',
    labels: ['queue', 'reason'],
  },
  key_jobs: {
    role: 'scheduler',
    help: 'Jobs of the keys that have most, by state; the rest as "other".',
    labels: ['queue', 'key', 'state'],
  },
  nodes: {
    role: 'scheduler',
    help: 'Worker nodes by state; overdue ones are also alive or draining.',
    labels: ['state'],
  },
  slots: { role: 'scheduler', help: 'Slots of nodes that are alive.', labels: [] },
  wanted_slots: {
    role: 'scheduler',
    help: 'Slots that each pool could use now: its work items, and those that its waiting jobs would make.',
    labels: ['pool'],
  },
  oldest_snapshot_seconds: {
    role: 'scheduler',
    help: 'For how long the oldest snapshot has held vacuum back; missing if its age is hidden from the scheduler.',
    labels: [],
  },
  numbers_up: {
    role: 'scheduler',
    help: 'Whether the numbers of the database could be read for this scrape.',
    labels: [],
  },
};

/** Values of labels. */
export type Labels = Readonly<Partial<Record<Label, string>>>;

/** Destination of the numbers. */
export interface Sink {
  readonly add: (name: CounterName, labels: Labels, by: number) => void;
  readonly record: (name: HistogramName, labels: Labels, seconds: number) => void;
  readonly set: (name: GaugeName, labels: Labels, value: number) => void;
}

/** Those that a process of this role has, made into something else. */
export function ofRole<Name extends string, From extends Instrument, To>(
  role: Role,
  from: Readonly<Record<Name, From>>,
  to: (name: Name, instrument: From) => To,
): ReadonlyMap<Name, To> {
  const all = Object.entries(from) as [Name, From][];
  const own = all.filter(([, instrument]) => instrument.role === undefined || instrument.role === role);
  return new Map(own.map(([name, instrument]) => [name, to(name, instrument)]));
}
