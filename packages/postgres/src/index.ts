export type { Database, DatabaseOptions } from './database.ts';
export { openDatabase } from './database.ts';
export { databaseShape } from './database-options.ts';
export { aConnectionString, connectionStringProblem } from './connection-string.ts';
export { warnWithoutLeader } from './leaderless.ts';
export type { Waiting } from './waiting.ts';
export { startWaiting, warn } from './waiting.ts';
export type { Executor, PgQueryable } from './executor.ts';
export { fromPg, toExecutor } from './executor.ts';
export type { HealthChecks, HealthOptions, HealthServer } from './health-server.ts';
export { healthShape, serveHealth, stuckLoops } from './health-server.ts';
export type { HintedJob } from './hinted-job.ts';
export { hintFacts, readHint } from './hinted-job.ts';
export type { HintChannel, Hints } from './hints.ts';
export { channelName, createHints } from './hints.ts';
export type { Listener, ListenerOptions } from './listener.ts';
export { startListener } from './listener.ts';
export type { Lone, LoneOptions } from './lone.ts';
export { openLone } from './lone.ts';
export type { MigrateOptions, Migration } from './migrator.ts';
export { migrate, migrationStatus } from './migrator.ts';
export type { BulkOptions, BulkResult, DeadOperator, DeadProgress, DeadSelection } from './operator/dead.ts';
export type { Diagnosis, Finding } from './operator/doctor.ts';
export { answerWithinMs, askLeader } from './operator/ask.ts';
export type { Estimate } from './operator/estimate.ts';
export type { Ask, JobExplanation } from './operator/explain.ts';
export { explainJob } from './operator/explain.ts';
export type { Breach, Invariant } from './operator/invariants.ts';
export { breaches, invariants } from './operator/invariants.ts';
export type { CancelAllOptions, CancelledJobs, JobCount, UnfinishedFilter } from './operator/cancel-all.ts';
export type { JobsOperator, Verdicts } from './operator/jobs.ts';
export type { Actor } from './dashboard/audit.ts';
export type { Operator, OperatorOptions, ScheduleDefinition } from './operator/operator.ts';
export { createOperator, operatorOf } from './operator/operator.ts';
export type { Reason } from './operator/reasons.ts';
export { keyText, rateText, reasonText } from './operator/reasons.ts';
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
} from './pg-errors.ts';
export type { DeadFilter, DeadJob, DeadListOptions, DeadReason } from './queries/dead.ts';
export type { JobDetails, JobFilter, JobListOptions, JobSummary } from './queries/jobs.ts';
export type { NodeInfo } from './queries/nodes.ts';
export type { InstallationNumbers, KeyNumbers, NodeNumbers } from './queries/numbers.ts';
export { listKeys, readNumbers } from './queries/numbers.ts';
export { readTraces } from './queries/traces.ts';
export type { Page } from './queries/page.ts';
export type { QueueChange, QueueLimits, QueueSettings, RateSetting } from './queries/queue-settings.ts';
export type { QueueInfo } from './queries/queues.ts';
export type { RecordedJob, RecordedOptions } from './queries/recorded.ts';
export type { StoredReport } from './queries/report.ts';
export type { ScheduleInfo } from './queries/schedules.ts';
export type { HotTable } from './queries/tables.ts';
export type { LeaderInfo, OldestSnapshot, UnservedJobs } from './queries/system.ts';
export type { PeekedJob, ScanOptions, WaitingJob } from './queries/waiting.ts';
export { peekJobs, queueLength, scanJobs } from './queries/waiting.ts';
export type * from './rows.ts';
export { latestSlot, nextSlot, scheduleProblems } from './cron-slots.ts';
export { checkSchemaName, checkSchemaVersion, defaultSchema, schemaVersion } from './schema.ts';
export type { ClaimInput } from './statements/claim.ts';
export { claim, claimUnread, firstItem, readLeased } from './statements/claim.ts';
export type { ClaimedRow, ClaimedRows, ClaimRowsInput } from './statements/claim-rows.ts';
export { claimRows } from './statements/claim-rows.ts';
export type { EndedRow, RowLease } from './statements/rows.ts';
export { releaseRows, settleRows, takeApart, takeOut, tellRuns } from './statements/rows.ts';
export type { Dispatched, DispatchInput, Supposition } from './statements/dispatch.ts';
export { dispatch, loadPolicyState, setFeed, takeBack } from './statements/dispatch.ts';
export type { EnqueueInput } from './statements/enqueue.ts';
export { enqueueAndHint, enqueueJobs } from './statements/enqueue.ts';
export { columnsToCopy, copyJobs } from './statements/enqueue-copy.ts';
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
export type { StopOnSignals, Stoppable } from './stop-on-signals.ts';
export { stopOnSignals } from './stop-on-signals.ts';
export type { Target } from './statements/target.ts';
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
