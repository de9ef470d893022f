/**
 * Characters that are invisible or change the order of the text around them: control characters,
 * bidirectional marks and zero-width characters.
 */
const unseen = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;
const lineMarks: ReadonlySet<string> = new Set(['\n', '\t']);

/**
 * Escapes such characters in untrusted text: `admin\u202e` instead of a line that runs backwards. Line feeds
 * and tabs stay.
 */
export function visible(text: string): string {
  return text.replace(unseen, (found) =>
    lineMarks.has(found) ? found : `\\u${(found.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}

/** Cuts text to `max` characters, and marks the cut with `…`. */
export function clipped(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

/** Formats JSON for reading, cut before its length could stall a page. */
export function pretty(value: unknown, max: number = 100_000): string {
  const text = JSON.stringify(value, null, 2) ?? 'null';
  return text.length > max ? `${text.slice(0, max)}\n… ${text.length - max} more characters` : text;
}
