import type { BenchOptions } from '../options.ts';
import type { Peer, Setting } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';

export type Metrics = Readonly<Record<string, number>>;

/** Result of one repetition of a case. */
export interface Measured {
  readonly metrics: Metrics;
  /** One value a second for each name. The soak also adds series with one value every 5 s. */
  readonly series?: Readonly<Record<string, readonly number[]>>;
  /** Violations: jobs lost, run twice or left over. */
  readonly faults: readonly string[];
}

/** One variant of a work: a section of the report. */
export interface Case {
  readonly name: string;
  readonly run: (stage: Stage, options: BenchOptions) => Promise<Measured>;
  /** Reports whether the case applies to a peer in a setting; default: it does. */
  readonly takes?: (peer: Peer, setting: Setting) => boolean;
  /** Limit of repetitions, for cases whose preparation takes minutes. */
  readonly repeatMax?: number;
}

export interface Work {
  readonly name: string;
  /** Description of the measurement, for the report. */
  readonly says: string;
  readonly cases: (options: BenchOptions) => readonly Case[];
}
