import type { FaultCount } from '../simulation/planning.ts';
import type { Spread } from '../simulation/quantiles.ts';
import type { JobCounts } from '../simulation/result.ts';

/** Key with the most slot time. */
export interface HottestKey {
  readonly key: string;
  /** Its share of that slot time, 0 to 1. No number of installations divides it. */
  readonly share: number;
}

/** Load of one of several installations. */
export interface HomeLoad {
  /** Its number, from 1. */
  readonly installation: number;
  /** Slots of its nodes; if all share theirs, all of them. */
  readonly slots: number;
  /** Keys that have their home there, of those that the workload has. */
  readonly keys: number;
  readonly jobs: JobCounts;
  /** Share of all slot time in use that its jobs took, 0 to 1. */
  readonly share: number;
  /** Share of its slots, from start to end, that its jobs used. */
  readonly utilisation: number;
  readonly waits: Spread;
  /** Most jobs that waited there at once. */
  readonly waitingMax: number;
  /** Null: none of its jobs has a key. */
  readonly hottest: HottestKey | null;
}

/** Result of a workload in a number of installations. */
export interface RoutedResult {
  readonly installations: number;
  readonly slots: number;
  readonly jobs: JobCounts;
  readonly waits: Spread;
  /** Largest p95 of the waits of a key, in milliseconds. Null: no job was started. */
  readonly worstP95Ms: number | null;
  readonly makespans: Spread;
  /** Time from the first arrival to the end, in milliseconds. */
  readonly spanMs: number;
  readonly utilisation: number;
  /** Share of all slots in use while a job waited in any installation. Null: no job ever waited. */
  readonly busyWhileWaiting: number | null;
  /**
   * Jain's index over the keys' served / entitled, as that of one installation: each key is entitled to its part, by
   * weight, of what the plans of all installations gave to keys that waited anywhere. Null: fewer than two keys have a
   * ratio.
   */
  readonly jain: number | null;
  /** Time in which two or more keys had waiting jobs that no gate held, in milliseconds. */
  readonly contendedMs: number;
  readonly hottest: HottestKey | null;
  readonly homes: readonly HomeLoad[];
  readonly faults: readonly FaultCount[];
}

/** Results of a workload in several numbers of installations. Plain JSON, the same for the same options. */
export interface InstallationsSimulation {
  readonly policy: string;
  readonly seed: number;
  /** Reports whether each installation has its part of the nodes, or all share the slots of all nodes. */
  readonly slots: 'divided' | 'shared';
  /** That of one installation first, then those of the given numbers. */
  readonly results: readonly RoutedResult[];
}
