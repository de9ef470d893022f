// Parts that the other packages of pgqueue are made of. Not for users: any release may change them.
export { inSnapshot, openDatabase } from './connection/database.ts';
export { databaseShape } from './connection/database-options.ts';
export { aConnectionString, connectionStringProblem } from './connection/connection-string.ts';
export { warnWithoutLeader } from './process/leaderless.ts';
export { onStopSignals } from './process/stop-on-signals.ts';
export { reach, warn } from './process/waiting.ts';
export { fromPg, toExecutor } from './connection/executor.ts';
export type { HealthChecks, HealthServer } from './process/health-server.ts';
export type { JointHealth } from './process/joint-health.ts';
export { createJointHealth } from './process/joint-health.ts';
export { healthShape, serveHealth, stuckLoops } from './process/health-server.ts';
export type { HintedJob } from './hints/hinted-job.ts';
export { hintFacts, readHint } from './hints/hinted-job.ts';
export type { Hints } from './hints/hints.ts';
export { channelName, createHints } from './hints/hints.ts';
export type { Listener } from './hints/listener.ts';
export { startListener } from './hints/listener.ts';
export type { Lone, LoneOptions } from './connection/single-connection.ts';
export { openLone } from './connection/single-connection.ts';
export { askLeader } from './operator/explain/ask.ts';
export { explainJob } from './operator/explain/explain.ts';
export { grouped, waitingSteps, waitingText } from './operator/explain/flow-waits.ts';
export { breaches, invariants } from './operator/doctor/invariants.ts';
export type { Installation } from './installations/installations.ts';
export {
  checkInstallations,
  identityProblem,
  installationsProblems,
  installationsRule,
} from './installations/installations.ts';
export { audited } from './dashboard/audit.ts';
export { operatorOf } from './operator/operator.ts';
export type { Route } from './calls/installation/identity.ts';
export { readIdentity, readRoute, readRoutes, setRoute } from './calls/installation/identity.ts';
export type { KeyMove, MoveId, MovePlace, OpenMove, Received } from './calls/installation/moves.ts';
export {
  claimMove,
  countKey,
  dropClaim,
  endHolds,
  finishMove,
  forgetSlice,
  handOver,
  holdKey,
  keysHere,
  leaveKey,
  nextSlice,
  openKey,
  readMoves,
  receiveJobs,
} from './calls/installation/moves.ts';
export { aLimitName, textOf } from './operator/shared-limits.ts';
export type { LeasedPart, LeaseRequest } from './calls/installation/shared-limits.ts';
export { leaseLimit, readLeading, readSharedLimits } from './calls/installation/shared-limits.ts';
export { shareUses } from './calls/installation/shared-uses.ts';
export type { Remedies } from './operator/explain/reasons.ts';
export { keyText, rateText, reasonText } from './operator/explain/reasons.ts';
export { settingsToStore } from './reads/queue-settings.ts';
export { shareReading } from './operator/share.ts';
export { readStatus, totalsOf } from './operator/status.ts';
export { persistently } from './connection/persistently.ts';
export {
  isIdTaken,
  isOfRow,
  isTransient,
  isWrongServer,
  noMoveState,
  leadershipLostState,
  lockedState,
  nodeEndedState,
  sqlState,
  wasRolledBack,
} from './connection/pg-errors.ts';
export { flowStates, listResults } from './reads/flows.ts';
export { readNumbers } from './reads/numbers.ts';
export { readTraces } from './reads/traces.ts';
export { peekJobs, queueLength, scanJobs } from './reads/waiting.ts';
export type * from './connection/tables.ts';
export { latestSlot, nextSlot, scheduleProblems } from './calendar/slots.ts';
export { checkSchemaName, checkSchemaVersion, defaultSchema, schemaVersion } from './connection/schema.ts';
export type { ClaimInput } from './calls/claim.ts';
export { claim, claimUnread, readLeased } from './calls/claim.ts';
export type { ClaimedRow, ClaimedRows } from './calls/claim-rows.ts';
export { claimRows } from './calls/claim-rows.ts';
export type { EndedRow, RowLease } from './calls/batches.ts';
export { releaseRows, settleRows, takeApart, takeOut, tellRuns } from './calls/batches.ts';
export type { DispatchInput, Supposition } from './calls/dispatch.ts';
export { dispatch, loadPolicyState, setFeed, takeBack } from './calls/dispatch.ts';
export type { EnqueueInput, KeyVersions } from './calls/enqueue/enqueue.ts';
export { enqueueAndHint, enqueueJobs } from './calls/enqueue/enqueue.ts';
export { columnsToCopy, copyJobs } from './calls/enqueue/enqueue-copy.ts';
export type { FlowStarted, FlowState, SignalInFlow } from './calls/flow/start.ts';
export { signalFlow, startFlow } from './calls/flow/start.ts';
export type { FlowsAdvanced } from './calls/flow/advance.ts';
export { advanceFlows, stopJobs, trimFlows } from './calls/flow/advance.ts';
export type { Suspension } from './calls/flow/durable.ts';
export { readClock, readWaitedPage, signalFlowId, signalJob, suspendJob } from './calls/flow/durable.ts';
export type { EndInStep, NeededStep, PageOfEnds, PagePlace } from './calls/flow/results.ts';
export { addJobs, fanOut, readNeedPage, readNeeds } from './calls/flow/results.ts';
export { makeId } from './calls/enqueue/job-id.ts';
export { jobsJson } from './calls/enqueue/job-json.ts';
export type { HealthReading } from './calls/health.ts';
export { readHealth } from './calls/health.ts';
export { lead, resign, watchLeader } from './calls/lead.ts';
export type { Lease } from './calls/lease.ts';
export { extend, reap, release, reportProgressOfAll } from './calls/lease.ts';
export { crashJob, saveCheckpoint } from './calls/long-jobs.ts';
export type { Heartbeat } from './calls/node.ts';
export { heartbeatNode, heldLeases, leaveNode, registerNode, resetNode } from './calls/node.ts';
export { amend, cancel, erase, redrive } from './calls/operate.ts';
export type { JobEnd } from './calls/results.ts';
export { keptResult, lostText } from './calls/results.ts';
export type { IdOf } from './calls/enqueue/known.ts';
export { knownIds } from './calls/enqueue/known.ts';
export type { Waited } from './results/waits.ts';
export type { HearingParts } from './results/hinted-waits.ts';
export { decoded, keyOf } from './codec/encrypted.ts';
export { openedEnd } from './codec/opened-jobs.ts';
export { createFlowWaits, createResultWaits } from './results/ends.ts';
export { releaseClaim } from './calls/release-claim.ts';
export type { OpenExplain } from './calls/report.ts';
export {
  answerExplain,
  notePolicy,
  questionsMax,
  readQuestions,
  readReportedPolicy,
  readWaitingJob,
  writeReport,
} from './calls/report.ts';
export type { SettleRequest, SettleVerdict } from './calls/settle.ts';
export { settle, settleAndHint, settleWithin, unlockedJobs } from './calls/settle.ts';
export type { DueSchedule } from './calls/schedules.ts';
export { dueSchedules, fireSchedule } from './calls/schedules.ts';
export type { Leader } from './calls/sweeps.ts';
export {
  countActivity,
  expire,
  loseNodes,
  maintainHistory,
  missingNodes,
  noteMissingNodes,
  trimHistory,
  nextLossMs,
  promote,
} from './calls/sweeps.ts';
export type { Target } from './connection/target.ts';
export type {
  ItemFacts,
  LaneId,
  LanePart,
  LanePlace,
  LaneRow,
  MovingKey,
  SettledBatch,
  Spot,
  TickDue,
  TickInput,
  TickRead,
  TickState,
} from './calls/tick.ts';
export {
  countBehind,
  firstWaiting,
  itemsBehind,
  readItemFacts,
  readTick,
  readTickState,
  settledMax,
} from './calls/tick.ts';
