import type { BenchOptions } from '../options.ts';
import type { Peer, Setting } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';

export type Metrics = Readonly<Record<string, number>>;

/** What one repetition of a case gave. */
export interface Measured {
  readonly metrics: Metrics;
  /** Values a second, by name. */
  readonly series?: Readonly<Record<string, readonly number[]>>;
  /** What must not happen, and did: jobs lost, run twice, out of order, left over. */
  readonly faults: readonly string[];
}

/** One shape of a work: a column of the report. */
export interface Case {
  readonly name: string;
  readonly run: (stage: Stage, options: BenchOptions) => Promise<Measured>;
  /** Whether that makes sense for a peer. */
  readonly takes?: (peer: Peer, setting: Setting) => boolean;
  /** Repetitions at most: its preparation takes minutes. */
  readonly repeatMax?: number;
}

export interface Work {
  readonly name: string;
  /** What is measured, in a sentence. */
  readonly says: string;
  readonly cases: (options: BenchOptions) => readonly Case[];
}
