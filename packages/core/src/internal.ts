// Parts that the other packages of pgqueue are made of. Not for users: any release may change them.
export { isTask, isTaskHandler } from './job/handler.ts';
export { isIsolated } from './job/isolated.ts';
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
export { aCodec } from './codec/codec.ts';
export {
  encodedFlow,
  encodedRow,
  encodedRows,
  encodedSignal,
  lengthProblem,
  placeOf,
} from './codec/encoded-rows.ts';
export { encodedError, opened, openedError } from './codec/stored-error.ts';
export { checkGraph } from './flow/check-graph.ts';
export { flowLimits } from './flow/limits.ts';
export { createProblems } from './flow/problems.ts';
export { issueText } from './job/task.ts';
export { aSchema } from './job/task-definition.ts';
export { toSignalValue } from './flow/signal-value.ts';
export type { FlowRow, FlowStepRow } from './flow/to-flow-row.ts';
export { signalFlowRow, waitedFlowRow } from './flow/waited-flow.ts';
export { toFlowRow } from './flow/to-flow-row.ts';
export { checkJobList, toJobRows } from './job/job-list.ts';
export { isTooDeep, shapeProblem } from './job/shape.ts';
export { isTraceparent, jobLimits, toJobRow } from './job/validate.ts';
export { schemasOf } from './job/schemas.ts';
export { durationMs, parseDuration } from './options/duration.ts';
export { isInCalendar } from './options/calendar-day.ts';
export { exactJson, InexactNumber } from './options/exact-json.ts';
export { repeated } from './options/repeated.ts';
export { throwProblems, unreachable } from './errors.ts';
export { errorData, errorLine } from './error-data.ts';
export { countByTask, terminalStatuses } from './events.ts';
export { loggedError } from './logged.ts';
export { storableJson } from './storable-json.ts';
export { homeOf } from './home-of.ts';
export { isUuid } from './ids.ts';
export type { Rule, Shape } from './options/options.ts';
export {
  aDuration,
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  aText,
  either,
  oneOf,
  optional,
  optionProblems,
  orNull,
  unknownNames,
  valueProblems,
} from './options/options.ts';
export type { Bell } from './runtime/bell.ts';
export { createBell } from './runtime/bell.ts';
export type { Loop, LoopOptions } from './runtime/loop.ts';
export { retryPauseMs, startLoop } from './runtime/loop.ts';
export { soonest } from './runtime/soonest.ts';
export { quietly } from './runtime/when-done.ts';
export { within } from './runtime/within.ts';
export { isGuarded, isTrusted } from './policy/compose/compose.ts';
export { madeWith, policyText } from './policy/made-with.ts';
export { fairShareOver } from './policy/orders/fair-share/fair-share.ts';
export { shareWeights } from './policy/orders/fair-share/levels.ts';
export type { Uses } from './policy/orders/fair-share/over.ts';
export { restoreOver, sumOfUses, usesNow } from './policy/orders/fair-share/over.ts';
export { decayOf } from './policy/orders/fair-share/saved.ts';
export type { Grant, SharedRules } from './policy/gates/shared-limits/grant.ts';
export type { SharedUse } from './policy/gates/shared-limits/shared-concurrency.ts';
export { sharedConcurrency } from './policy/gates/shared-limits/shared-concurrency.ts';
export type { SharedFlow } from './policy/gates/shared-limits/shared-rate.ts';
export { sharedRate } from './policy/gates/shared-limits/shared-rate.ts';
export { readableRate } from './policy/gates/state/format.ts';
export { noneClosed } from './policy/plan.ts';
export { planProblems } from './policy/planning/plan-problems.ts';
export { canRun, takesBundles } from './policy/planning/slots.ts';
export { defaultPool, defaultQueue } from './policy/snapshot.ts';
