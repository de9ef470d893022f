export type { Comparison, CompareOptions, Difference, LaneDifference } from './simulation/compare.ts';
export { compare, compareResults } from './simulation/compare.ts';
export type { HomeLoad, HottestKey, InstallationsSimulation, RoutedResult } from './installations/result.ts';
export type { InstallationsOptions } from './installations/simulate-installations.ts';
export { simulateInstallations } from './installations/simulate-installations.ts';
export type { Arrival } from './workloads/arrival.ts';
export type { FlowArrival, StepArrival } from './workloads/flow-arrival.ts';
export type { NodeOptions } from './workloads/fleet.ts';
export type { PageOptions } from './report/html.ts';
export { htmlReport } from './report/html.ts';
export type { WorkloadFile } from './workloads/json-workload.ts';
export { parseWorkload } from './workloads/json-workload.ts';
export type {
  Conditions,
  FailureOptions,
  SimulateOptions,
  SimulationProgress,
} from './simulation/options.ts';
export type { FaultCount } from './simulation/planning.ts';
export type { Spread } from './simulation/quantiles.ts';
export type { Random } from './workloads/random.ts';
export { createRandom } from './workloads/random.ts';
export type { Recorded } from './workloads/recorded.ts';
export { toArrival } from './workloads/recorded.ts';
export type {
  Deadlines,
  FlowResult,
  HeldResult,
  JobCounts,
  LaneResult,
  LimitUse,
  QueueResult,
  ServedTime,
  Simulation,
  TimeSeries,
} from './simulation/result.ts';
export { simulate } from './simulation/simulate.ts';
export type { SwfOptions, SwfWorkload } from './workloads/swf.ts';
export { parseSwf } from './workloads/swf.ts';
export type { StreamOptions } from './workloads/synthetic.ts';
export { merge, synthetic } from './workloads/synthetic.ts';
export type { Table } from './report/table.ts';
export { installationsTables } from './report/installations-tables.ts';
export { comparisonTables, tablesOf } from './report/tables.ts';
export type { Workload } from './workloads/workload.ts';
export { countJobs } from './workloads/workload.ts';
