/** Formats a duration in its two largest units: `3m 12s`, `1d 4h`, `250ms`. */
export function age(ms: number | null): string {
  if (ms === null) return '-';
  if (ms < 0) return `-${age(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  const seconds = Math.floor(ms / 1_000);
  const [days, hours, minutes] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3_600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  if (days > 0) return hours > 0 ? `${days}d ${hours}h` : `${days}d`;
  if (hours > 0) return minutes > 0 ? `${hours}h ${minutes}m` : `${hours}h`;
  if (minutes > 0) return seconds % 60 > 0 ? `${minutes}m ${seconds % 60}s` : `${minutes}m`;
  return `${seconds}s`;
}

export function percent(share: number | null): string {
  return share === null ? '-' : `${Math.round(share * 100)}%`;
}

/** Shortens text to one line of at most `max` characters. */
export function brief(text: string, max = 60): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= max ? line : `${line.slice(0, max - 1)}…`;
}

/**
 * Escapes control characters and bidirectional marks: text from a job must not control the terminal or
 * reverse what follows. Tabs and line feeds stay.
 */
export function printable(text: string): string {
  return text.replaceAll(
    // oxlint-disable-next-line no-control-regex -- control characters are what this is about
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    escaped,
  );
}

/** Like {@link printable}, but escapes tabs and line breaks as well, for text that must stay on one line. */
export function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, escaped);
}

/** Like {@link printable}, but keeps the colour codes of a table. */
export function printableWithColors(text: string): string {
  // oxlint-disable-next-line no-control-regex -- the escape sequence of a colour
  const parts = text.split(/(\u001b\[[0-9;]*m)/);
  return parts.map((part, index) => (index % 2 === 1 ? part : printable(part))).join('');
}

/** Escapes in JSON text the characters that JSON allows unescaped but a terminal interprets. */
export function plainJson(text: string): string {
  return text.replaceAll(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (control) => `\\u${(control.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}

const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(control: string): string {
  const code = (control.codePointAt(0) ?? 0).toString(16);
  return shortEscapes[control] ?? (code.length > 2 ? `\\u${code}` : `\\x${code.padStart(2, '0')}`);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
