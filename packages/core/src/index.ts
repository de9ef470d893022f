export type {
  AbortReason,
  Handler,
  JobContext,
  JobLogger,
  Parsed,
  Task,
  TaskDefaults,
  TaskDefinition,
  TaskHandler,
  TaskInput,
  TransactionClient,
  Upcaster,
} from './job/task.ts';
export { defineTask, implement, isTaskHandler } from './job/task.ts';
export type {
  Attributes,
  ClaimedJob,
  Enqueued,
  JobOptions,
  JobRow,
  JobStatus,
  Json,
  NewJob,
  TraceContext,
  Unique,
} from './job/job.ts';
export { jobStatuses } from './job/job.ts';
export type { Outcome } from './job/outcome.ts';
export { cancelled, giveUp, isOutcome, retryAfter, snooze } from './job/outcome.ts';
export type { Backoff, RetryOptions } from './job/retry-policy.ts';
export {
  backoffOf,
  defaultBackoff,
  defaultMaxCrashes,
  defaultMaxTries,
  retryDelayMs,
  retryProblems,
} from './job/retry-policy.ts';
export { isTraceparent, jobLimits, toJobRow } from './job/validate.ts';
export type { Duration } from './duration.ts';
export { durationMs, parseDuration } from './duration.ts';
export type { ErrorCode } from './errors.ts';
export { errorData, PgQueueError, throwProblems, unreachable } from './errors.ts';
export type { Logger, Observer, PgQueueEvent } from './events.ts';
export { allObservers, logObserver, terminalStatuses } from './events.ts';
export { isUuid, uuidV7 } from './ids.ts';
export type { Loop, LoopOptions } from './runtime/loop.ts';
export { retryPauseMs, startLoop } from './runtime/loop.ts';
export type { HoldReason, Plan, PlannedJob } from './policy/plan.ts';
export { planProblems } from './policy/plan.ts';
export type { Policy } from './policy/policy.ts';
export type { RoundRobinState } from './policy/round-robin.ts';
export { roundRobin } from './policy/round-robin.ts';
export type { Fit, JobKind, Slots } from './policy/slots.ts';
export { canRun, openSlots } from './policy/slots.ts';
export type {
  Candidate,
  KeySeen,
  NodeGroup,
  PoolSeen,
  QueueSeen,
  ReadyItems,
  Snapshot,
  VersionRange,
} from './policy/snapshot.ts';
export { compareInKey, compareText, defaultPool, own, poolOf } from './policy/snapshot.ts';
