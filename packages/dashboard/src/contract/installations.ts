import type { Role, Time } from './api.ts';
import type { Depths, Warning, WorkerUse } from './overview.ts';

/** Present state of one installation among several. */
export interface InstallationNow {
  /** Name of the leading scheduler; null: none leads. */
  readonly leader: string | null;
  readonly depths: Depths;
  readonly workers: WorkerUse;
  /** Jobs done a second, over the last 5 minutes. */
  readonly donePerSecond: number;
  readonly warnings: readonly Warning[];
}

/** One of several installations. */
export interface InstallationRow {
  readonly installation: string;
  readonly number: number;
  /** `draining`: it gets no new keys. */
  readonly state: 'active' | 'draining';
  /** Null: it did not answer, and `error` says why. */
  readonly now: InstallationNow | null;
  readonly error: string | null;
}

/** Answer to GET /api/installations, which only the pages over several installations ask for. */
export interface Installations {
  /** Time by the clock of the dashboard's process. */
  readonly at: Time;
  readonly actor: { readonly name: string; readonly role: Role };
  /** Version of this package. */
  readonly version: string;
  /** In the order of their numbers. */
  readonly installations: readonly InstallationRow[];
  /** Sums over those that answered. */
  readonly totals: {
    readonly answered: number;
    /** Ages are those of the oldest. */
    readonly depths: Omit<Depths, 'retryRate'>;
    readonly workers: WorkerUse;
    readonly donePerSecond: number;
    readonly warnings: number;
  };
}

/** Answer to GET /api/find/:id, over several installations. */
export interface Found {
  /** Null: no installation that answered knows the id. */
  readonly found: { readonly installation: string; readonly kind: 'job' | 'flow' } | null;
  /** Names of those that did not answer, and may know it. */
  readonly unreachable: readonly string[];
}
