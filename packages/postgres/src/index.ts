export type { Database, DatabaseOptions } from './connection/database.ts';
export { inSnapshot, openDatabase } from './connection/database.ts';
export { databaseShape } from './connection/database-options.ts';
export { aConnectionString, connectionStringProblem } from './connection/connection-string.ts';
export { warnWithoutLeader } from './process/leaderless.ts';
export type { StartWait } from './process/waiting.ts';
export { startWaiting, warn } from './process/waiting.ts';
export type { Executor, PgQueryable } from './connection/executor.ts';
export { fromPg, toExecutor } from './connection/executor.ts';
export type { HealthChecks, HealthOptions, HealthServer } from './process/health-server.ts';
export { healthShape, serveHealth, stuckLoops } from './process/health-server.ts';
export type { HintedJob } from './hints/hinted-job.ts';
export { hintFacts, readHint } from './hints/hinted-job.ts';
export type { HintChannel, Hints } from './hints/hints.ts';
export { channelName, createHints } from './hints/hints.ts';
export type { Listener, ListenerOptions } from './hints/listener.ts';
export { startListener } from './hints/listener.ts';
export type { Lone, LoneOptions } from './connection/single-connection.ts';
export { openLone } from './connection/single-connection.ts';
export type { MigrateOptions, Migration } from './migrate/migrator.ts';
export { migrate, migrationStatus } from './migrate/migrator.ts';
export type { BulkOptions, BulkResult, DeadOperator, DeadProgress, DeadSelection } from './operator/dead.ts';
export type { Diagnosis, Finding } from './operator/doctor/doctor.ts';
export { answerWithinMs, askLeader } from './operator/explain/ask.ts';
export type { Estimate } from './operator/explain/estimate.ts';
export type { Ask, JobExplanation } from './operator/explain/explain.ts';
export { explainJob } from './operator/explain/explain.ts';
export type { Breach, Invariant } from './operator/doctor/invariants.ts';
export { breaches, invariants } from './operator/doctor/invariants.ts';
export type { CancelAllOptions, CancelledJobs, JobCount, UnfinishedFilter } from './operator/cancel-all.ts';
export type { JobsOperator, Verdicts } from './operator/jobs.ts';
export type { Actor } from './dashboard/audit.ts';
export type { OperatorOptions } from './operator/operator.ts';
export type { Operator, ScheduleDefinition } from './operator/operator-interface.ts';
export { createOperator, operatorOf } from './operator/operator.ts';
export type { Reason } from './operator/explain/reasons.ts';
export { keyText, rateText, reasonText } from './operator/explain/reasons.ts';
export type { ShareOptions } from './operator/share.ts';
export { shareReading } from './operator/share.ts';
export type { QueueStatus, Status, Warning } from './operator/status.ts';
export { readStatus } from './operator/status.ts';
export type { RunningJob, Top, TopOptions } from './operator/top.ts';
export { readTop } from './operator/top.ts';
export {
  isIdTaken,
  isOfRow,
  isTransient,
  isWrongServer,
  keyPendingState,
  leadershipLostState,
  lockedState,
  nodeEndedState,
  sqlState,
  wasRolledBack,
} from './connection/pg-errors.ts';
export type { DeadFilter, DeadJob, DeadListOptions, DeadReason } from './reads/dead.ts';
export type { JobDetails, JobFilter, JobListOptions, JobSummary } from './reads/jobs.ts';
export type { NodeInfo } from './reads/nodes.ts';
export type { InstallationNumbers, KeyNumbers, NodeNumbers } from './reads/numbers.ts';
export { listKeys, readNumbers } from './reads/numbers.ts';
export { readTraces } from './reads/traces.ts';
export type { Page } from './reads/page.ts';
export type { QueueChange, QueueLimits, QueueSettings, RateSetting } from './reads/queue-settings.ts';
export type { QueueInfo } from './reads/queues.ts';
export type { RecordedJob, RecordedOptions } from './reads/recorded.ts';
export type { StoredReport } from './reads/report.ts';
export type { ScheduleInfo } from './reads/schedules.ts';
export type { HotTable } from './reads/tables.ts';
export type { LeaderInfo, OldestSnapshot, UnservedJobs } from './reads/system.ts';
export type { PeekedJob, ScanOptions, WaitingJob } from './reads/waiting.ts';
export { peekJobs, queueLength, scanJobs } from './reads/waiting.ts';
export type * from './connection/tables.ts';
export { latestSlot, nextSlot, scheduleProblems } from './reads/cron-slots.ts';
export { checkSchemaName, checkSchemaVersion, defaultSchema, schemaVersion } from './connection/schema.ts';
export type { ClaimInput } from './statements/claim.ts';
export { claim, claimUnread, readLeased } from './statements/claim.ts';
export type { ClaimedRow, ClaimedRows, ClaimRowsInput } from './statements/claim-rows.ts';
export { claimRows } from './statements/claim-rows.ts';
export type { EndedRow, RowLease } from './statements/rows.ts';
export { releaseRows, settleRows, takeApart, takeOut, tellRuns } from './statements/rows.ts';
export type { Dispatched, DispatchInput, Supposition } from './statements/dispatch.ts';
export { dispatch, loadPolicyState, setFeed, takeBack } from './statements/dispatch.ts';
export type { EnqueueInput } from './statements/enqueue/enqueue.ts';
export { enqueueAndHint, enqueueJobs } from './statements/enqueue/enqueue.ts';
export { columnsToCopy, copyJobs } from './statements/enqueue/enqueue-copy.ts';
export type { HealthReading } from './statements/health.ts';
export { readHealth } from './statements/health.ts';
export type { Leadership } from './statements/lead.ts';
export type { Watched } from './statements/lead.ts';
export { lead, resign, watchLeader } from './statements/lead.ts';
export type { Lease } from './statements/lease.ts';
export { extend, reap, release, reportProgress, reportProgressOfAll } from './statements/lease.ts';
export { crashJob, saveCheckpoint } from './statements/long-jobs.ts';
export type { Heartbeat, NodeRegistered, NodeRegistration, NodeReset } from './statements/node.ts';
export { heartbeatNode, heldLeases, leaveNode, registerNode, resetNode } from './statements/node.ts';
export type { Amendment } from './statements/operate.ts';
export { amend, cancel, erase, redrive } from './statements/operate.ts';
export { releaseClaim } from './statements/release-claim.ts';
export type {
  Flow,
  LeaderAnswer,
  OpenExplain,
  ReportedFault,
  ReportedUnreadable,
  ReportedPolicy,
  SchedulerReport,
  WaitingFacts,
} from './statements/report.ts';
export {
  answerExplain,
  questionsMax,
  readQuestions,
  readReportedPolicy,
  readWaitingJob,
  writeReport,
} from './statements/report.ts';
export type { Settlement, Verdict } from './statements/settle.ts';
export { settle, settleAndHint, settleWithin, unlockedJobs } from './statements/settle.ts';
export type { DueSchedule, Leader, MissingNodes } from './statements/sweeps.ts';
export {
  countActivity,
  dueSchedules,
  expire,
  fireSchedule,
  loseNodes,
  maintainHistory,
  missingNodes,
  missNodes,
  trimHistory,
  nextLossMs,
  promote,
} from './statements/sweeps.ts';
export type { StopOnSignals, Stoppable } from './process/stop-on-signals.ts';
export { stopOnSignals } from './process/stop-on-signals.ts';
export type { Target } from './connection/target.ts';
export type {
  ItemFacts,
  LaneId,
  LanePart,
  LaneRow,
  SettledBatch,
  Spot,
  TickDue,
  TickInput,
  TickRead,
  TickState,
} from './statements/tick.ts';
export {
  firstWaiting,
  itemsBehind,
  readItemFacts,
  readTick,
  readTickState,
  settledMax,
} from './statements/tick.ts';
