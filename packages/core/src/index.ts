export type {
  AbortReason,
  Handler,
  JobContext,
  JobLogger,
  Parsed,
  Settle,
  StatementRunner,
  Task,
  TaskInput,
  TaskResult,
  TransactionClient,
} from './job/task.ts';
export type { TaskDefaults, TaskDefinition, Upcaster } from './job/task-definition.ts';
export type { AllOptions, DurableContext, EndedJob, EndedJobs, SignalOptions } from './job/durable.ts';
export type { Need, Needed, NeededTask, NeedFailure, NeedResult, TaskNeeds } from './job/needs.ts';
export { defineTask } from './job/task.ts';
export type {
  BatchContext,
  BatchHandler,
  BatchJob,
  BatchReturn,
  BatchTaskHandler,
  SingleTaskHandler,
  TaskHandler,
} from './job/handler.ts';
export { implement, implementBatch } from './job/handler.ts';
export type { HandlerOf, IsolatedHandler, IsolatedOptions } from './job/isolated.ts';
export { isolated } from './job/isolated.ts';
export type {
  Attributes,
  Enqueued,
  JobOptions,
  JobStatus,
  Json,
  NewJob,
  TraceContext,
  Unique,
} from './job/job.ts';
export type { Outcome } from './job/outcome.ts';
export { cancelled, fanOut, giveUp, retryAfter, snooze } from './job/outcome.ts';
export type { Backoff, RetryOptions } from './job/retry-policy.ts';
export type { Duration } from './options/duration.ts';
export type { Codec, CodecField, CodecPlace } from './codec/codec.ts';
export type { ErrorCode } from './errors.ts';
export { PgQueueError } from './errors.ts';
export type { ErrorData } from './error-data.ts';
export type { Flow } from './flow/flow.ts';
export { flow } from './flow/flow.ts';
export type {
  AnySteps,
  Fits,
  FreshName,
  StepName,
  StepsOf,
  StepValue,
  StepOptions,
  WithStep,
  WithSteps,
} from './flow/step-types.ts';
export type { AnyFlow, FlowStep, NeedCondition, Signal, SignalInput, StepWork, Timer } from './flow/step.ts';
export { signal, timer } from './flow/step.ts';
export type { FlowOptions } from './flow/to-flow-row.ts';
export type { Logger, Observer, PgQueueEvent } from './events.ts';
export { allObservers, logObserver } from './events.ts';
export { installationOf, uuidV7 } from './ids.ts';
export type { PolicyOptions } from './policy/compose/compose.ts';
export type { Coalesce } from './policy/parts.ts';
export { policy } from './policy/compose/compose.ts';
export type { Gate, JobGroups, OpenGate, Verdict } from './policy/gate.ts';
export type { CircuitBreakerOptions } from './policy/gates/circuit-breaker/circuit-breaker.ts';
export { circuitBreaker } from './policy/gates/circuit-breaker/circuit-breaker.ts';
export type { ConcurrencyOptions } from './policy/gates/concurrency.ts';
export { concurrency } from './policy/gates/concurrency.ts';
export type { CustomGateOptions, Fetched } from './policy/gates/custom.ts';
export { gate } from './policy/gates/custom.ts';
export type { DatabaseHealthOptions } from './policy/gates/database-health.ts';
export { databaseHealth } from './policy/gates/database-health.ts';
export type { Cost, GroupBy, GroupValue, Limit } from './policy/gates/state/group.ts';
export type { OrderedOptions } from './policy/gates/ordered.ts';
export { ordered } from './policy/gates/ordered.ts';
export type { LimitBy, RateOptions } from './policy/gates/rate.ts';
export { rate } from './policy/gates/rate.ts';
export { standardGates } from './policy/gates/standard.ts';
export type { OpenGates } from './policy/planning/open-gates.ts';
export { openGates } from './policy/planning/open-gates.ts';
export type { Heads, OpenOrder, Order } from './policy/order.ts';
export type { Heap } from './policy/orders/ranking/heap.ts';
export { createHeap } from './policy/orders/ranking/heap.ts';
export { defaultPolicy } from './policy/compose/default.ts';
export type { Scoring } from './policy/orders/by-score.ts';
export { byScore } from './policy/orders/by-score.ts';
export type { EarliestDeadlineOptions } from './policy/orders/earliest-deadline.ts';
export { earliestDeadline } from './policy/orders/earliest-deadline.ts';
export type { FairShareState } from './policy/orders/fair-share/state.ts';
export type { FairShareOptions } from './policy/orders/fair-share/fair-share.ts';
export { fairShare } from './policy/orders/fair-share/fair-share.ts';
export type { ShareLevel } from './policy/orders/fair-share/levels.ts';
export type { StrictPriorityOptions } from './policy/orders/strict-priority.ts';
export { strictPriority } from './policy/orders/strict-priority.ts';
export type { Ranking } from './policy/orders/ranked.ts';
export { fifo, ranked, turns } from './policy/orders/ranked.ts';
export type {
  ClosedLane,
  ClosedLanes,
  HeldCounts,
  Holds,
  Plan,
  PlannedJob,
  PolicyFault,
} from './policy/plan.ts';
export type {
  Explanation,
  Hold,
  Needs,
  Policy,
  Leading,
  Preparation,
  SavedPart,
  Watch,
  Written,
} from './policy/policy.ts';
export type { PolicyState } from './policy/plan.ts';
export { neverMs } from './policy/policy.ts';
export type { Fit, JobKind, Slots } from './policy/planning/slots.ts';
export { openSlots } from './policy/planning/slots.ts';
export type {
  AttemptEnd,
  Candidate,
  DatabaseHealth,
  InFlight,
  JobFacts,
  Lane,
  NodeGroup,
  NodeTask,
  PoolSeen,
  Prepared,
  QueueSeen,
  Rate,
  ReadyItems,
  Settlement,
  Snapshot,
  VersionRange,
} from './policy/snapshot.ts';
export { compareInKey, compareText, laneName, own, poolOf, queueOf } from './policy/snapshot.ts';
