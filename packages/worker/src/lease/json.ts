/** A result may have so much JSON; more of it belongs elsewhere. */
export const resultBytesMax = 1_048_576;

/**
 * A handler's result as JSON text that jsonb takes: undefined is null; NUL and lone surrogates, which it refuses, are left
 * out or replaced. One that can't be JSON, or is too long, gives an object that says so, and the problem.
 */
export function resultText(value: unknown): { readonly text: string; readonly problem?: string } {
  try {
    const text = jsonText(value);
    if (Buffer.byteLength(text) <= resultBytesMax) return { text };
    return refused(`it has more than ${resultBytesMax} bytes`);
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
}

function refused(why: string): { readonly text: string; readonly problem: string } {
  const problem = `the handler's result can't be stored as JSON: ${why}`;
  return { text: jsonText({ pgqueue_error: problem }), problem };
}

/** @throws what JSON.stringify throws: cycles, BigInt, a toJSON */
export function jsonText(value: unknown): string {
  const text = (JSON.stringify(value) as string | undefined) ?? 'null';
  // escapes of NUL and of lone surrogates, which well-formed text never has
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(cleaned(JSON.parse(text))) : text;
}

function cleaned(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed();
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [cleaned(name), cleaned(inner)]));
}
