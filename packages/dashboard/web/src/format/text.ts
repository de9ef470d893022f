/** What a reader can't see, or what turns the order of what he sees: control characters, marks of direction, zero widths. */
const unseen = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;
const lineMarks: ReadonlySet<string> = new Set(['\n', '\t']);

/** Text of strangers, such that what is seen is what is there: `admin\u202e` and not a line that runs backwards. */
export function visible(text: string): string {
  return text.replace(unseen, (found) =>
    lineMarks.has(found) ? found : `\\u${(found.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}

/** The first `max` characters, with a mark where more were cut off. */
export function clipped(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

/** JSON for reading, cut off before it could stall a page. */
export function pretty(value: unknown, max: number = 100_000): string {
  const text = JSON.stringify(value, null, 2) ?? 'null';
  return text.length > max ? `${text.slice(0, max)}\n… ${text.length - max} more characters` : text;
}
