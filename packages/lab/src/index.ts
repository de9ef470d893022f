export type { NodeOptions } from './fleet.ts';
export type { Conditions, FailureOptions, SimulateOptions } from './options.ts';
export type { FaultCount } from './planning.ts';
export type { Spread } from './quantiles.ts';
export type { Random } from './random.ts';
export { createRandom } from './random.ts';
export type {
  Deadlines,
  HeldResult,
  JobCounts,
  LaneResult,
  LimitUse,
  QueueResult,
  ServedTime,
  Simulation,
  TimeSeries,
} from './result.ts';
export { simulate } from './simulate.ts';
export type { StreamOptions } from './synthetic.ts';
export { merge, synthetic } from './synthetic.ts';
export type { Arrival, Workload } from './workload.ts';
