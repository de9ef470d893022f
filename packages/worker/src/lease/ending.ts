import type { JobRow } from '@pgqueue/core/internal';

/** Ending of an attempt, as its node sees it. */
export type Ending =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  /** Done, with jobs that are added to its step. */
  | { readonly kind: 'fan_out'; readonly rows: readonly JobRow[]; readonly result: unknown }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }
  | { readonly kind: 'timeout'; readonly timeoutMs: number }
  /** The process of the handler died, and the node did not. */
  | { readonly kind: 'crashed'; readonly why: string };
