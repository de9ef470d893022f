export { homeOf } from '@pgqueue/core/internal';
export type { Installation } from '@pgqueue/postgres/internal';
export { checkInstallations, installationsProblems } from '@pgqueue/postgres/internal';
export type { KeysOperator, MoveKeyOptions, MoveOptions, RebalanceOptions } from './move/keys.ts';
export type { KeyMoved } from './move/move.ts';
export type { FailedMove, MovePlan, PlannedMove, Rebalanced } from './move/rebalance.ts';
export type { MoveProgress } from './move/steps.ts';
export type { LimitPart, LimitStatus, RouterLimits } from './limits/limits-of.ts';
export type { SharedFairShareOptions } from './limits/shared-fair-share.ts';
export { sharedFairShare } from './limits/shared-fair-share.ts';
export type { SharedLimitOptions, SharedLimitsOptions } from './limits/shared-limits.ts';
export { sharedLimits } from './limits/shared-limits.ts';
export type { Checked, CheckedInstallation, Misfit } from './operator/check.ts';
export type { Answer } from './operator/every.ts';
export type {
  InstallationStatus,
  RouterJobs,
  RouterOperator,
  RouterPage,
  RouterStatus,
  Unreachable,
} from './operator/operator.ts';
export type { RouterProducer } from './producer/producer.ts';
export type { Router, RouterOptions } from './router.ts';
export { createRouter } from './router.ts';
export type { RouterWorker, RouterWorkerOptions } from './worker/worker.ts';
