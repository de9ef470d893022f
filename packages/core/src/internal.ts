// Parts that the other packages of pgqueue are made of. Not for users: any release may change them. A module of which
// the public entry exports something is exported name by name.
export { aCodec } from './codec/codec.ts';
export * from './codec/encoded-rows.ts';
export * from './codec/stored-error.ts';
export { errorData, errorLine, errorTexts } from './error-data.ts';
export { throwProblems, unreachable } from './errors.ts';
export { countByTask, terminalStatuses } from './events.ts';
export * from './flow/check-graph.ts';
export * from './flow/limits.ts';
export * from './flow/problems.ts';
export * from './flow/signal-value.ts';
export type { FlowRow, FlowStepRow } from './flow/to-flow-row.ts';
export { toFlowRow } from './flow/to-flow-row.ts';
export * from './flow/waited-flow.ts';
export * from './home-of.ts';
export { isUuid } from './ids.ts';
export { isHandlerFunction, isTask, isTaskHandler } from './job/handler.ts';
export { isIsolated } from './job/isolated.ts';
export * from './job/job-list.ts';
export type { ClaimedJob, JobRow } from './job/job.ts';
export { jobStatuses } from './job/job.ts';
export { isNeededTask, stepOfNeed } from './job/needs.ts';
export { isOutcome } from './job/outcome.ts';
export {
  backoffOf,
  defaultBackoff,
  defaultMaxCrashes,
  defaultMaxTries,
  retryDelayMs,
} from './job/retry-policy.ts';
export * from './job/schemas.ts';
export * from './job/shape.ts';
export { aSchema } from './job/task-definition.ts';
export { issueTexts } from './job/task.ts';
export * from './job/validate.ts';
export * from './logged.ts';
export * from './options/calendar-day.ts';
export { durationMs, parseDuration } from './options/duration.ts';
export * from './options/exact-json.ts';
export * from './options/options.ts';
export * from './options/repeated.ts';
export { needsShape, preparationShape } from './policy/check-part.ts';
export { isGuarded, isTrusted } from './policy/compose/compose.ts';
export * from './policy/gates/shared-limits/grant.ts';
export * from './policy/gates/shared-limits/shared-concurrency.ts';
export * from './policy/gates/shared-limits/shared-rate.ts';
export * from './policy/gates/state/format.ts';
export * from './policy/made-with.ts';
export { fairShareOver } from './policy/orders/fair-share/fair-share.ts';
export { shareWeights } from './policy/orders/fair-share/levels.ts';
export * from './policy/orders/fair-share/over.ts';
export * from './policy/orders/fair-share/saved.ts';
export { noneClosed } from './policy/plan.ts';
export * from './policy/planning/plan-problems.ts';
export { canRun, takesBundles } from './policy/planning/slots.ts';
export { defaultPool, defaultQueue } from './policy/snapshot.ts';
export * from './runtime/bell.ts';
export * from './runtime/loop.ts';
export * from './runtime/soonest.ts';
export * from './runtime/when-done.ts';
export * from './runtime/within.ts';
export * from './storable-json.ts';
