/**
 * Returns a value as JSON text that jsonb accepts: without NUL, and with lone surrogates replaced, since jsonb
 * refuses both.
 * @throws the errors of JSON.stringify: cycles, BigInt, a toJSON
 */
export function storableJson(value: unknown): string {
  const text = (JSON.stringify(value) as string | undefined) ?? 'null';
  // Matches escapes of NUL and of lone surrogates; JSON of well-formed text has neither.
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(cleaned(JSON.parse(text))) : text;
}

function cleaned(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed();
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [cleaned(name), cleaned(inner)]));
}
