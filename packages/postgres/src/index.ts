export { blind } from './codec/blind.ts';
export type { EncryptedOptions } from './codec/encrypted.ts';
export { encrypted } from './codec/encrypted.ts';
export type { EncryptionKey, KeyBytes } from './codec/keys.ts';
export type { Database, DatabaseOptions } from './connection/database.ts';
export type { Executor, PgQueryable } from './connection/executor.ts';
export type { HealthOptions } from './process/health-server.ts';
export type { MigrateOptions, Migration } from './migrate/migrator.ts';
export { migrate, migrationStatus } from './migrate/migrator.ts';
export type {
  BulkOptions,
  BulkResult,
  DeadOperator,
  DeadProgress,
  DeadSelection,
  RewrapResult,
} from './operator/dead.ts';
export type { Diagnosis, Finding } from './operator/doctor/doctor.ts';
export type { Estimate } from './operator/explain/estimate.ts';
export type { JobExplanation } from './operator/explain/explain.ts';
export type { Breach, Invariant } from './operator/doctor/invariants.ts';
export type { StepWait, WaitingStep } from './operator/explain/flow-waits.ts';
export type { FlowExplanation, FlowRetry, FlowsOperator } from './operator/flows.ts';
export type { InstallationOperator } from './operator/installation.ts';
export type { PartOf, SharedLimitsOperator } from './operator/shared-limits.ts';
export type { SharedLimit, SharedPart } from './calls/installation/shared-limits.ts';
export type { InstallationIdentity } from './calls/installation/identity.ts';
export type { CancelAllOptions, CancelledJobs, JobCount, UnfinishedFilter } from './operator/cancel-all.ts';
export type { JobsOperator, Verdicts, WaitOptions } from './operator/jobs.ts';
export type { Actor } from './dashboard/audit.ts';
export type { OperatorOptions } from './operator/operator.ts';
export type { Operator, ScheduleDefinition } from './operator/operator-interface.ts';
export { createOperator } from './operator/operator.ts';
export type { Reason } from './operator/explain/reasons.ts';
export type { QueueStatus, Status, Warning } from './operator/status.ts';
export type { RunningJob, Top, TopOptions } from './operator/top.ts';
export type { DeadFilter, DeadJob, DeadListOptions, DeadReason } from './reads/dead.ts';
export type {
  FlowDetails,
  FlowFilter,
  FlowInfo,
  FlowListOptions,
  FlowProgress,
  FlowStatus,
  NeedInfo,
  FlowNumbers,
  StepInfo,
  StepResult,
} from './reads/flows.ts';
export type { JobDetails, JobFilter, JobListOptions, JobSummary } from './reads/jobs.ts';
export type { NodeInfo } from './reads/nodes.ts';
export type { InstallationNumbers, KeyNumbers, NodeNumbers } from './reads/numbers.ts';
export type { Page } from './reads/page.ts';
export type {
  QueueChange,
  QueueLimits,
  QueueSettings,
  RateSetting,
  StoredQueueSettings,
} from './reads/queue-settings.ts';
export type { QueueInfo } from './reads/queues.ts';
export type { ReadOnly } from './reads/read-only.ts';
export type { RecordedJob, RecordedOptions } from './reads/recorded.ts';
export type { StoredReport } from './reads/report.ts';
export type { ScheduleInfo } from './reads/schedules.ts';
export type { HotTable } from './reads/tables.ts';
export type { LeaderInfo, OldestSnapshot, UnservedJobs } from './reads/system.ts';
export type { PeekedJob, ScanOptions, WaitingJob } from './reads/waiting.ts';
export type { NodeReset } from './calls/node.ts';
export type { Amendment } from './calls/operate.ts';
export type {
  RecentDispatches,
  LeaderAnswer,
  ReportedFault,
  ReportedUnreadable,
  SchedulerReport,
  WaitingFacts,
} from './calls/report.ts';
export type { StopOnSignals, Stoppable } from './process/stop-on-signals.ts';
export { stopOnSignals } from './process/stop-on-signals.ts';
