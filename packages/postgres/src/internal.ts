// Parts that the other packages of pgqueue are made of. Not for users: any release may change them. A module of which
// the public entry exports something is exported name by name.
export * from './calendar/slots.ts';
export * from './calls/batches.ts';
export * from './calls/claim-rows.ts';
export * from './calls/claim.ts';
export * from './calls/backlog.ts';
export * from './calls/dispatch.ts';
export * from './calls/enqueue/enqueue-copy.ts';
export * from './calls/enqueue/enqueue.ts';
export * from './calls/enqueue/job-id.ts';
export * from './calls/enqueue/job-json.ts';
export * from './calls/enqueue/known.ts';
export * from './calls/flow/advance.ts';
export * from './calls/flow/durable.ts';
export * from './calls/flow/results.ts';
export * from './calls/flow/start.ts';
export * from './calls/health.ts';
export type { Route } from './calls/installation/identity.ts';
export { readIdentity, readRoute, readRoutes, setRoute } from './calls/installation/identity.ts';
export * from './calls/installation/moves.ts';
export type { LeasedPart, LeaseRequest } from './calls/installation/shared-limits.ts';
export { leaseLimit, readLeading, readSharedLimits } from './calls/installation/shared-limits.ts';
export * from './calls/installation/shared-uses.ts';
export * from './calls/lead.ts';
export * from './calls/lease.ts';
export * from './calls/long-jobs.ts';
export type { Heartbeat } from './calls/node.ts';
export { heartbeatNode, heldLeases, leaveNode, registerNode, resetNode } from './calls/node.ts';
export { amend, cancel, erase, redrive } from './calls/operate.ts';
export * from './calls/release-claim.ts';
export type { OpenExplain } from './calls/report.ts';
export {
  answerExplain,
  notePolicy,
  questionsMax,
  readPolicies,
  readQuestions,
  readWaitingJob,
  writeReport,
} from './calls/report.ts';
export * from './calls/results.ts';
export * from './calls/schedules.ts';
export * from './calls/settle.ts';
export * from './calls/sweeps.ts';
export * from './calls/tick.ts';
export { decoded, keyOf } from './codec/encrypted.ts';
export * from './codec/opened-jobs.ts';
export * from './connection/connection-string.ts';
export * from './connection/database-options.ts';
export { inSnapshot, openDatabase } from './connection/database.ts';
export { fromPg, toExecutor } from './connection/executor.ts';
export * from './connection/persistently.ts';
export * from './connection/pg-errors.ts';
export * from './connection/schema.ts';
export * from './connection/single-connection.ts';
export * from './connection/tables.ts';
export * from './connection/target.ts';
export { anActor, noteAction, noteResult } from './dashboard/audit.ts';
export * from './hints/hinted-job.ts';
export * from './hints/hints.ts';
export * from './hints/listener.ts';
export { wakeNodes } from './hints/wake.ts';
export * from './installations/installations.ts';
export { breaches, invariants } from './operator/doctor/invariants.ts';
export * from './operator/explain/ask.ts';
export { explainJob } from './operator/explain/explain.ts';
export { grouped, waitingSteps, waitingText } from './operator/explain/flow-waits.ts';
export type { Remedies } from './operator/explain/reasons.ts';
export { keyText, rateText, reasonText } from './operator/explain/reasons.ts';
export { operatorOf } from './operator/operator.ts';
export * from './operator/share.ts';
export { aLimitName, textOf } from './operator/shared-limits.ts';
export { readStatus, totalsOf } from './operator/status.ts';
export type { HealthChecks, HealthServer } from './process/health-server.ts';
export { healthShape, serveHealth, stuckLoops } from './process/health-server.ts';
export * from './process/joint-health.ts';
export * from './process/leaderless.ts';
export { onStopSignals } from './process/stop-on-signals.ts';
export * from './process/waiting.ts';
export { flowStates, listResults } from './reads/flows.ts';
export { readNumbers } from './reads/numbers.ts';
export { settingsToStore } from './reads/queue-settings.ts';
export * from './reads/traces.ts';
export { peekJobs, queueLength, scanJobs } from './reads/waiting.ts';
export * from './results/ends.ts';
export * from './results/hinted-waits.ts';
export * from './results/waits.ts';
