/** Ending of an attempt, as its node sees it. */
export type Ending =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }
  | { readonly kind: 'timeout'; readonly timeoutMs: number }
  /** The process of the handler died, and the node did not. */
  | { readonly kind: 'crashed'; readonly why: string };
