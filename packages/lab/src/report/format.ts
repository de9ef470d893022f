/** Formats a duration for tables and axes: `0.4 ms`, `12 ms`, `1.5 s`, `2.5 min`, `3.2 h`, `1.5 d`. */
export function sayMs(ms: number | null): string {
  if (ms === null) return '-';
  const size = Math.abs(ms);
  for (const [unit, unitMs, upToMs] of units) {
    if (size < upToMs) return `${sayNumber(ms / unitMs)} ${unit}`;
  }
  return `${sayNumber(ms / 86_400_000)} d`;
}

const units = [
  ['ms', 1, 1_000],
  ['s', 1_000, 120_000],
  ['min', 60_000, 7_200_000],
  ['h', 3_600_000, 172_800_000],
] as const;

/** Formats a number: integers from 10 on, one decimal from 1 on, else two decimals. */
export function sayNumber(value: number | null): string {
  if (value === null) return '-';
  const size = Math.abs(value);
  const digits = size >= 10 || size === 0 ? 0 : size >= 1 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** Formats a share as a percentage: `12.3 %`. */
export function sayShare(share: number | null): string {
  return share === null ? '-' : `${Number((share * 100).toFixed(1))} %`;
}

// control characters steer terminals, and direction marks reverse the text after them
// oxlint-disable-next-line no-control-regex -- they are what this is about
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** Shortens a name to `max` characters and makes it printable. */
export function sayName(name: string, max = 40): string {
  const short = name.length <= max ? name : `${name.slice(0, max - 1)}…`;
  return printable(short);
}

/** Replaces control characters, direction marks and unpaired surrogates. */
export function printable(text: string): string {
  return text.toWellFormed().replaceAll(unprintable, '\uFFFD');
}

/** Formats a key, with its queue unless that is the only one. */
export function sayLane(
  { queue, key }: { readonly queue: string; readonly key: string },
  { alone, max = 40 }: { readonly alone: boolean; readonly max?: number },
): string {
  const named = key === '' ? '(no key)' : sayName(key, max);
  return alone ? named : `${sayName(queue, Math.ceil(max / 2))}/${named}`;
}

/** Returns the best unit for a span of time. */
export function unitFor(spanMs: number): { readonly name: string; readonly ms: number } {
  const [name, ms] = units.find(([, , upToMs]) => spanMs < upToMs) ?? (['d', 86_400_000] as const);
  return { name, ms };
}
