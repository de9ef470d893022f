export type { Comparison, CompareOptions, Difference, LaneDifference } from './compare.ts';
export { compare, compareResults } from './compare.ts';
export type { NodeOptions } from './fleet.ts';
export type { PageOptions } from './html.ts';
export { htmlReport } from './html.ts';
export type { WorkloadFile } from './json-workload.ts';
export { parseWorkload } from './json-workload.ts';
export type { Conditions, FailureOptions, SimulateOptions, SimulationProgress } from './options.ts';
export type { FaultCount } from './planning.ts';
export type { Spread } from './quantiles.ts';
export type { Random } from './random.ts';
export { createRandom } from './random.ts';
export type { Recorded } from './recorded.ts';
export { toArrival } from './recorded.ts';
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
export type { SwfOptions, SwfWorkload } from './swf.ts';
export { parseSwf } from './swf.ts';
export type { StreamOptions } from './synthetic.ts';
export { merge, synthetic } from './synthetic.ts';
export type { Table } from './table.ts';
export { comparisonTables, tablesOf } from './tables.ts';
export type { Arrival, Workload } from './workload.ts';
