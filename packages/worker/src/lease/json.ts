import { storableJson } from '@pgqueue/core/internal';

/** Longest result, in bytes of JSON; store larger ones elsewhere, and return a reference. */
export const resultBytesMax = 1_048_576;

/** A handler's result as it crosses the border of a process: its JSON, or why it can't be stored. */
export type SentResult = { readonly text: string } | { readonly why: string };

/**
 * Returns a handler's result as JSON text that jsonb accepts. `undefined` becomes null. NUL is removed, and
 * lone surrogates are replaced, since jsonb refuses both. For a value that cannot be JSON, or is too long,
 * returns an object that says so, and the problem.
 */
export function resultText(value: unknown): { readonly text: string; readonly problem?: string } {
  const sent = sentResult(value);
  return 'text' in sent ? sent : unstorable(sent.why);
}

/** Returns a handler's result for another process. */
export function sentResult(value: unknown): SentResult {
  try {
    const text = storableJson(value);
    if (Buffer.byteLength(text) <= resultBytesMax) return { text };
    return { why: `it has more than ${resultBytesMax} bytes` };
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error) };
  }
}

/** Restores a result. One that can't be stored becomes a value that can't be stored either, for the same reason. */
export function receivedResult(sent: SentResult): unknown {
  if ('text' in sent) return JSON.parse(sent.text);
  const toJSON = (): never => {
    throw new Error(sent.why);
  };
  return { toJSON };
}

/** Returns what is stored in place of a result, and its problem. */
export function unstorable(why: string): { readonly text: string; readonly problem: string } {
  const problem = `the handler's result can't be stored as JSON: ${why}`;
  return { text: storableJson({ pgqueue_error: problem }), problem };
}
